"""The one-slack cutting plane for (14).

T. Joachims, T. Finley, C.-N. Yu, Cutting-plane training of structural SVMs, Machine Learning 77, 2009; the line search
between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lvmdc.solvers.hinge import Point, StructuredHinge
from lvmdc.solvers.line_search import line_search
from lvmdc.solvers.master import solve_master
from lvmdc.solvers.truth import Truth
from lvmdc.solvers.working_set import WorkingSet

ROUNDING = 1e-9  # the share of the objective that float64 arithmetic can tell


@dataclass(frozen=True)
class Solution:
    """The best point found, its objective in (14), and how far at most it is from the optimum.

    `met` is what `Met` kept of the points that were looked at, where none was better than the start in (14) by more than rounding.

    >>> from lvmdc.solvers.hinge import Point
    >>> Solution(Point(torch.zeros(1), torch.zeros(1, 1)), value=1.0, gap=0.25).gap
    0.25
    """

    point: Point
    value: float
    gap: float
    met: Point | None = None


class OneSlack:
    """min_w ½‖w‖² + C max_c (l_c + w·(A_c − b)), one cut c a pass: A_c the mean Ψ of a selection, l_c its mean loss, b the truth's.

    The working set outlives a call, so that the next (14), with another h* or another θ, starts nearly solved.

    Args:
        max_iter: passes in one call at most.
        lookahead: the cut is taken at this fraction of the way from the best point to the master's.

    >>> from lvmdc.joint import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> truth = Truth(hinge, rows=torch.tensor([0, 1]))
    >>> round(OneSlack(hinge).solve(loss, truth, hinge.origin(), tol=1e-9).value, 4)
    0.5
    """

    mixes_scores = True
    begins_anew = False

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, lookahead: float = 0.3):
        self.hinge, self.max_iter, self.lookahead = hinge, max_iter, lookahead
        self.cuts = WorkingSet(hinge)

    def gap(self, expected_loss: Tensor, truth: Truth, point: Point) -> float:
        """Infinite: nothing is known of another (14) before it is solved."""
        return float("inf")

    def solve(self, expected_loss: Tensor, truth: Truth, start: Point, tol: float, share: float = 0.0) -> Solution:
        """Lower (14) from `start` until at most `tol` above its optimum; never ends above where it started.

        Args:
            expected_loss: (T, K) Δ_i(y, h; θ).
            truth: Ψ(x_i, y_i, h*_i).
            share: also stop when the gap is at most this share of what was gained since `start`.
        """
        hinge, cuts, mean = self.hinge, self.cuts, truth.mean
        cuts.rebase(expected_loss, mean)
        best, first = start, hinge.convex_value(start, expected_loss, mean)
        value, lower = first, 0.0  # (14) is never negative: Δ ≥ 0
        reachable, met = rounding(start.scores), Met(hinge, expected_loss, first)
        cuts.add(*hinge.violated(start.scores, expected_loss))
        for _ in range(self.max_iter):
            w, dual = cuts.combine(solve_master(cuts.gram, cuts.loss, hinge.C))
            lower = max(lower, dual)
            if value - lower <= max(tol, reachable * value, share * (first - value)):
                break
            proposal = hinge.at(w)
            best, value = line_search(hinge, expected_loss, mean, best, proposal)
            met.look(proposal, value)
            ahead = best.towards(proposal, self.lookahead)
            cuts.add(*hinge.violated(ahead.scores, expected_loss))
        return Solution(best, value, value - lower, met.point)

    def state(self) -> dict[str, Any]:
        """The cuts, as tensors."""
        return self.cuts.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was taken."""
        self.cuts.load_state(state)


class Met:
    """Of points that are looked at, the first one that has a lower (13) than w = 0 has, or that of lowest (13) while there is none; nothing
    at all once (14) has fallen from `first` by more than rounding.

    >>> from lvmdc.joint import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> met = Met(hinge, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), first=1.0)
    >>> for size in (9.0, 0.5, 0.6):
    ...     met.look(hinge.at(torch.tensor([size, 0.0, 0.0, size])), so_far=1.0)
    >>> met.point.w[0], met.value
    (tensor(0.5000), 0.75)
    >>> met.look(hinge.origin(), so_far=0.9)
    >>> print(met.point)
    None
    """

    def __init__(self, hinge: StructuredHinge, expected_loss: Tensor, first: float):
        self.hinge, self.expected_loss, self.first = hinge, expected_loss, first
        self.point: Point | None = None
        self.value, self.origin = float("inf"), hinge.value_at_origin(expected_loss)

    def look(self, point: Point, so_far: float, value: float | None = None) -> None:
        """At a point, when the lowest (14) is `so_far`; its (13) need not be computed where it is given."""
        if self.first - so_far > rounding(self.expected_loss) * self.first:
            self.point, self.value = None, -float("inf")
        if self.value < self.origin:
            return
        value = self.hinge.value(point, self.expected_loss) if value is None else value
        if value < self.value:
            self.point, self.value = point, value


def rounding(scores: Tensor) -> float:
    """The share of the objective below which a gap cannot be told from rounding: some 1e-7 where scores are in float32.

    >>> rounding(torch.zeros(1, dtype=torch.float64))
    1e-09
    """
    return max(ROUNDING, 2 * torch.finfo(scores.dtype).eps)
