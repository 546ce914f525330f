"""Search along a line in w, at no pass over the features."""

from torch import Tensor

from lvmdc.inference import best
from lvmdc.solvers.hinge import Point, StructuredHinge

STEPS = 6  # evaluations at most
FLAT = 0.05  # share of the slope at the start below which a slope counts as zero


def line_search(hinge: StructuredHinge, expected_loss: Tensor, truth: Tensor, start: Point, end: Point) -> tuple[Point, float]:
    """About the best of (14) on the segment from `start` to `end`, and its value, never above that of `start`.

    The objective is convex along the line, so its slope, taken at the maximising (y, h), says on which side the minimum lies;
    the place is found by the secant rule of Illinois, which halves the weight of an end that stays.
    """
    augmented, rise = start.scores + expected_loss, (end.scores - start.scores).nan_to_num_(nan=0.0)  # −inf minus itself
    along = end.w - start.w
    constant, bend = float(along @ (start.w - hinge.C * truth)), float(along @ along)

    def slope(step: float) -> float:
        y, rows = best(hinge.candidates, augmented.add(rise, alpha=step))
        return constant + step * bend + hinge.C * hinge.mean(rise[rows, y])

    low, high = 0.0, 1.0
    at_low, at_high = slope(0.0), slope(1.0)
    enough = FLAT * abs(at_low)
    if at_high <= enough:
        low = 1.0
    elif at_low < 0:
        for _ in range(STEPS):
            step = low - at_low * (high - low) / (at_high - at_low)
            here = slope(step)
            if here > enough:
                high, at_high, at_low = step, here, at_low / 2
            else:
                low, at_low, at_high = step, here, at_high / 2
                if here >= -enough:
                    break
    found = start.towards(end, low)
    before, after = (hinge.convex_value(p, expected_loss, truth) for p in (start, found))
    return (found, after) if after < before else (start, before)
