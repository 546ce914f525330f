"""½‖w‖² + C·R, R a function of the scores alone, which are linear in w."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.objective import half_square
from lvmdc.solvers.w_block import LinearScores, Point

FARTHEST = 2.0**20  # no step is longer, nor shorter than its inverse: beyond, only rounding errors are compared
MOST = 50  # evaluations at most, beyond which only rounding errors are compared


class Risk(ABC):
    """R, a mean over samples of functions of their scores (T, K)."""

    @abstractmethod
    def value(self, scores: Tensor) -> float:
        """R."""

    @abstractmethod
    def weights(self, scores: Tensor) -> Tensor:
        """(T, K) in float64: a subgradient of R in the scores."""

    def plane(self, scores: Tensor) -> tuple[float, Tensor]:
        """Both."""
        return self.value(scores), self.weights(scores)

    def along(self, scores: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope of R at each step along the line of scores + step·rise, in float64."""
        return lambda step: inner(self.weights(scores + step * rise), rise)


@dataclass(frozen=True)
class Regularised:
    """½‖w‖² + C·R(w)."""

    space: LinearScores
    risk: Risk
    C: float

    def value(self, point: Point) -> float:
        return half_square(point.w) + self.C * self.risk.value(point.scores)

    def gradient(self, point: Point) -> Tensor:
        """(D,): a subgradient."""
        return point.w + self.C * self.space.transpose(self.risk.weights(point.scores))

    def along(self, start: Point, direction: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope at each step along a line of w, whose scores rise by `rise`; it costs no pass."""
        constant, bend, slope = float(direction @ start.w), float(direction @ direction), self.risk.along(start.scores, rise)
        return lambda step: constant + step * bend + self.C * slope(step)


def inner(weights: Tensor, scores: Tensor) -> float:
    """Σ weight·score in float64; candidates that a class lacks, of score −inf and weight 0, add nothing.

    >>> inner(torch.tensor([2.0, 0.0]), torch.tensor([3.0, -torch.inf]))
    6.0
    """
    return float((weights.double() * finite(scores)).sum())


def finite(scores: Tensor) -> Tensor:
    """The scores in float64, 0 where a class lacks the candidate.

    >>> finite(torch.tensor([3.0, -torch.inf]))
    tensor([3., 0.], dtype=torch.float64)
    """
    return scores.double().masked_fill(scores == -torch.inf, 0.0)


# ---- where along a line to stop: scores are linear in w, so that a search costs no pass over the features --------------


def level(slope: Callable[[float], float], flat: float, limit: float = FARTHEST, steps: int = 4) -> float:
    """Approximately the step in (0, limit] where a convex function stops falling, by its slope; 0 where it does not fall at all.

    The step doubles until the slope is not negative; then the Illinois secant rule, which halves the weight of an end that stays.

    Args:
        flat: the share of the slope at the start below which a slope counts as zero.
        steps: the evaluations once the minimum is bracketed, as soon as a lower point is among them.

    >>> round(level(lambda t: t - 3.0, 0.1), 6), level(lambda t: t - 3.0, 0.1, limit=1.0), level(lambda t: 1.0, 0.1)
    (3.0, 1.0, 0.0)
    """
    low, high = 0.0, 1.0
    at_low = slope(0.0)
    if not at_low < 0:
        return 0.0
    enough = flat * -at_low
    at_high = slope(high)
    while at_high < -enough and high < limit:
        low, at_low, high = high, at_high, min(2 * high, limit)
        at_high = slope(high)
    if at_high <= enough:
        return high
    for done in range(MOST):
        if done >= steps and low > 0:
            break
        step = low - at_low * (high - low) / (at_high - at_low)
        here = slope(step)
        if abs(here) <= enough:
            return step
        if here > 0:
            high, at_high, at_low = step, here, at_low / 2
        else:
            low, at_low, at_high = step, here, at_high / 2
    return low  # where it still falls, it is surely below the start


def lower(value: Callable[[float], float], before: float, expand: bool = True) -> float:
    """A step at which any function, of value `before` at 0, is lower: 1, or twice as far while that is lower still, or half as far
    until it is. 0 where no step helps.

    >>> lower(lambda t: (t - 3.0) ** 2, 9.0), lower(lambda t: (t - 0.2) ** 2, 0.04), lower(lambda t: t, 0.0)
    (2.0, 0.25, 0.0)
    """
    step, here = 1.0, value(1.0)
    while not here <= before:
        step /= 2
        if step < 1 / FARTHEST:
            return 0.0
        here = value(step)
    while expand and step >= 1 and step < FARTHEST and (further := value(2 * step)) < here:
        step, here = 2 * step, further
    return step
