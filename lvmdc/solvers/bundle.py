"""A cutting plane for ½‖w‖² + C·R(w) with any convex R ≥ 0 of the scores.

C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le, Bundle methods for regularized risk minimization, JMLR 11, 2010; the line search
between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.
"""

from lvmdc.solvers.cutting_planes import CuttingPlanes
from lvmdc.solvers.line_search import level
from lvmdc.solvers.linear import Regularised, finite, inner
from lvmdc.solvers.w_block import Point, Solution, rounding

LOOKAHEAD = 0.1  # the cut is taken at this fraction of the way from the best point to the master's
RAISES = 0.1  # unless it lifts the planes over the master's w by less than this share of the gap: then one more is taken there
FLAT = 0.1  # how exactly to search between the two, in slopes: an evaluation costs as much as a cut without its pass


def bundle(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower the objective from `start` until at most `tol` above its optimum; never ends above `start`.

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
