"""Cutting planes of a convex function, their master problem, a small dense quadratic program that a library solves, and `bundle`.

C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le, Bundle methods for regularized risk minimization, JMLR 11, 2010; the line search
between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.
"""

import numpy as np
import piqp
import torch
from torch import Tensor

from lvmdc.solvers.linear import Regularised, finite, inner, level
from lvmdc.solvers.w_block import Point, Solution, rounding

IDLE = 15  # master problems that a plane may have no weight in before it is dropped; a dropped one can be found again
ACTIVE = 1e-7  # dual weights below this are zero but for the accuracy of the master
LOOKAHEAD = 0.1  # the cut is taken at this fraction of the way from the best point to the master's
RAISES = 0.1  # unless it lifts the planes over the master's w by less than this share of the gap: then one more is taken there
FLAT = 0.1  # how exactly to search between the two, in slopes: an evaluation costs as much as a cut without its pass


class CuttingPlanes:
    """Planes a_c + (g_c − b)·w below a function R ≥ 0, and their master problem min_w ½‖w‖² + C max(0, max_c a_c + (g_c − b)·w).

    b, common to all planes, may change while they are kept.

    >>> planes = CuttingPlanes(size=1)
    >>> planes.add(torch.tensor([-1.0], dtype=torch.float64), 1.0)
    >>> planes.minimum(C=0.5)  # w, and the value, a lower bound of ½‖w‖² + C·R
    (tensor([0.5000], dtype=torch.float64), 0.375)
    """

    def __init__(self, size: int, device: torch.device | None = None):
        self.slopes = torch.zeros(0, size, dtype=torch.float64, device=device)  # (m, D) g_c
        self.base = torch.zeros(size, dtype=torch.float64, device=device)  # (D,) b
        self.offsets = np.zeros(0)  # (m,) a_c
        self.idle = np.zeros(0, dtype=int)
        self._gram, self._cross = np.zeros((0, 0)), np.zeros(0)  # (m, m) g_c·g_c', (m,) g_c·b

    def __len__(self) -> int:
        return len(self.slopes)

    def set_base(self, base: Tensor, offsets: np.ndarray) -> None:
        """Another b, and the offsets that go with it."""
        self.base, self.offsets = base, offsets
        self._cross = (self.slopes @ base).cpu().numpy()

    def add(self, slope: Tensor, offset: float) -> None:
        """One more plane."""
        m = len(self)
        self.slopes = torch.cat([self.slopes, slope[None]])
        gram, row = np.empty((m + 1, m + 1)), (self.slopes @ slope).cpu().numpy()
        gram[:m, :m], gram[m, :], gram[:, m] = self._gram, row, row
        self._gram, self._cross = gram, np.append(self._cross, float(slope @ self.base))
        self.offsets, self.idle = np.append(self.offsets, offset), np.append(self.idle, 0)

    def minimum(self, C: float) -> tuple[Tensor, float]:
        """The w of the master problem and its dual value; planes that have long been idle are then dropped."""
        gram = self._gram - self._cross[:, None] - self._cross[None, :] + float(self.base @ self.base)
        alpha = solve_master(gram, self.offsets, C)
        w = C * (alpha.sum() * self.base - torch.from_numpy(alpha).to(self.slopes.device) @ self.slopes)
        dual = C * float(alpha @ self.offsets) - 0.5 * float(w @ w)
        self.idle = np.where(alpha > ACTIVE, 0, self.idle + 1)
        if (self.idle > IDLE).any():
            self.keep(self.idle <= IDLE)
        return w, dual

    def keep(self, mask: np.ndarray) -> None:
        """Drop all planes outside a mask (m,)."""
        self.slopes = self.slopes[torch.from_numpy(mask).to(self.slopes.device)]
        self._gram, self._cross = self._gram[np.ix_(mask, mask)], self._cross[mask]
        self.offsets, self.idle = self.offsets[mask], self.idle[mask]


def solve_master(gram: np.ndarray, loss: np.ndarray, C: float) -> np.ndarray:
    """The α ≥ 0, Σα ≤ 1 that maximises lᵀα − C/2 αᵀGα, the dual of the master problem divided by C.

    Args:
        gram: (m, m) inner products of the slopes, positive semidefinite and often singular.
        loss: (m,) the offsets l_c.

    >>> solve_master(np.array([[1.0]]), np.array([0.5]), C=1.0).round(6)
    array([0.5])
    """
    m = len(loss)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10  # α sums to one at most: far below `ACTIVE`
    lower, upper = np.zeros(m), np.ones(m)
    solver.setup(np.asfortranarray(C * gram), -loss, None, None, np.ones((1, m), order="F"), np.array([-np.inf]), np.ones(1), lower, upper)
    status = solver.solve()
    # The last digits may be out of reach on a singular matrix; the caller measures the gap of the result, so that an
    # inexact α can cost iterations but never a wrong answer. A solve that failed altogether must not pass.
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED, piqp.PIQP_NUMERICS) or not np.isfinite(solver.result.x).all():
        raise RuntimeError(f"the master problem with {m} planes was not solved: {status}")
    alpha = np.clip(solver.result.x, 0.0, 1.0)
    return alpha / max(1.0, alpha.sum())


def bundle(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower ½‖w‖² + C·R(w), with any convex R ≥ 0 of the scores, from `start` until at most `tol` above its optimum; never ends higher.

    Args:
        share: also stop when the gap is at most this share of what was gained since `start`.
        max_iter: the most iterations, of one or two cuts each.
    """
    space, C = problem.space, problem.C
    best, value, lower = start, problem.value(start), 0.0
    first, reachable = value, rounding(start.scores)
    planes = CuttingPlanes(space.size, start.w.device)

    def cut_at(point: Point) -> float:
        """Adds the tangent of R at a point; its height over the master's w."""
        height, weights = problem.risk.plane(point.scores)
        slope, offset = space.transpose(weights), height - inner(weights, point.scores)
        planes.add(slope, offset)
        return offset + float(slope @ w)

    w = start.w
    cut_at(start)
    for _ in range(max_iter):
        w, dual = planes.minimum(C)
        lower = max(lower, dual)
        if value - lower <= max(tol, reachable * abs(value), share * (first - value)):
            break
        proposal = space.at(w)
        along = problem.along(best, w - best.w, finite(proposal.scores) - finite(best.scores))
        found = best.towards(proposal, level(along, FLAT, limit=1.0))
        if (after := problem.value(found)) < value:
            best, value = found, after
        below = (dual - 0.5 * float(w @ w)) / C  # the planes over w
        # Where the search ended short of the minimum of its line, the cut may not touch w, and the master would give the same again.
        if cut_at(best.towards(proposal, LOOKAHEAD)) - below < RAISES * (value - dual) / C:
            cut_at(proposal)
    return Solution(best, value, value - lower)
