"""A cutting plane for ½‖w‖² + C·R(w) with any convex R ≥ 0 of the scores.

C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le, Bundle methods for regularized risk minimization, JMLR 11, 2010; the line search
between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.
"""

import numpy as np
import torch
from torch import Tensor

from lvmdc.solvers.lbfgs import level
from lvmdc.solvers.linear import Regularised, finite, inner
from lvmdc.solvers.one_slack import Solution, rounding, solve_master
from lvmdc.solvers.w_block import Point

LOOKAHEAD = 0.1  # the cut is taken at this fraction of the way from the best point to the master's
RAISES = 0.1  # unless it lifts the planes over the master's w by less than this share of the gap: then one more is taken there
FLAT = 0.1  # how exactly the best point between the two is sought, in slopes
IDLE = 15  # master problems that a cut may sit out before it is dropped
ACTIVE = 1e-7  # weight below which the master does not use a cut


class Cuts:
    """Planes a_c + g_c·w below R, and their master problem min_w ½‖w‖² + C max(0, max_c a_c + g_c·w).

    >>> cuts = Cuts(size=1)
    >>> cuts.add(torch.tensor([-1.0], dtype=torch.float64), 1.0)
    >>> cuts.minimum(C=0.5)  # w, and the value, which is below that of the whole problem
    (tensor([0.5000], dtype=torch.float64), 0.375)
    """

    def __init__(self, size: int, device: torch.device | None = None):
        self.slopes = torch.zeros(0, size, dtype=torch.float64, device=device)  # (m, D) g_c
        self.offsets, self.idle, self.gram = np.zeros(0), np.zeros(0, dtype=int), np.zeros((0, 0))

    def add(self, slope: Tensor, offset: float) -> None:
        """One more plane."""
        m = len(self.offsets)
        self.slopes = torch.cat([self.slopes, slope[None]])
        gram, row = np.empty((m + 1, m + 1)), (self.slopes @ slope).cpu().numpy()
        gram[:m, :m], gram[m, :], gram[:, m] = self.gram, row, row
        self.gram, self.offsets, self.idle = gram, np.append(self.offsets, offset), np.append(self.idle, 0)

    def minimum(self, C: float) -> tuple[Tensor, float]:
        """The master's w and its dual value; then planes long idle are dropped."""
        alpha = solve_master(self.gram, self.offsets, C)
        w = -C * (torch.from_numpy(alpha).to(self.slopes.device) @ self.slopes)
        dual = C * float(alpha @ self.offsets) - 0.5 * float(w @ w)
        self.idle = np.where(alpha > ACTIVE, 0, self.idle + 1)
        kept = self.idle <= IDLE
        if not kept.all():
            self.slopes = self.slopes[torch.from_numpy(np.flatnonzero(kept)).to(self.slopes.device)]
            self.gram, self.offsets, self.idle = self.gram[np.ix_(kept, kept)], self.offsets[kept], self.idle[kept]
        return w, dual


def bundle(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower the objective from `start` until at most `tol` above its optimum; never ends above where it started.

    Args:
        share: also stop when the gap is at most this share of what was gained since `start`.
        max_iter: cuts at most.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers.linear import LinearScores, SmoothRisk
    >>> class Hinge(SmoothRisk):
    ...     def value(self, scores): return float((1 - scores).clamp(min=0).mean())
    ...     def weights(self, scores): return -(scores < 1).double() / len(scores)
    >>> problem = Regularised(LinearScores(Candidates(torch.tensor([[1.0], [2.0]]), [1, 1]), ClassBlocks(1)), Hinge(), C=0.5)
    >>> round(bundle(problem, problem.space.origin(), tol=1e-9).value, 4)
    0.25
    """
    space, C = problem.space, problem.C
    best, value, lower = start, problem.value(start), 0.0
    first, reachable = value, rounding(start.scores)
    cuts = Cuts(space.size, start.w.device)

    def cut_at(point: Point) -> float:
        """Adds the tangent of R at a point; its height over the master's w."""
        height, weights = problem.risk.plane(point.scores)
        slope, offset = space.transpose(weights), height - inner(weights, point.scores)
        cuts.add(slope, offset)
        return offset + float(slope @ w)

    w = start.w
    cut_at(start)
    for _ in range(max_iter):
        w, dual = cuts.minimum(C)
        lower = max(lower, dual)
        if value - lower <= max(tol, reachable * abs(value), share * (first - value)):
            break
        proposal = space.at(w)
        best, value = _search(problem, best, value, proposal)
        below = (dual - 0.5 * float(w @ w)) / C  # the planes over w
        # Where the search ended short of the minimum of its line, the cut may not touch w, and the master would give the same again.
        if cut_at(best.towards(proposal, LOOKAHEAD)) - below < RAISES * (value - dual) / C:
            cut_at(proposal)
    return Solution(best, value, value - lower)


def _search(problem: Regularised, start: Point, before: float, end: Point) -> tuple[Point, float]:
    """About the best point between two, and its value, never above that of the first."""
    rise = finite(end.scores) - finite(start.scores)
    step = level(problem.along(start, end.w - start.w, rise), FLAT, limit=1.0)
    found = start.towards(end, step)
    after = problem.value(found)
    return (found, after) if after < before else (start, before)
