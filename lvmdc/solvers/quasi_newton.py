"""L-BFGS for ½‖w‖² + C·R(w) with a smooth convex R of the scores."""

from collections import deque

from torch import Tensor

from lvmdc.solvers.descent import level
from lvmdc.solvers.hinge import Point
from lvmdc.solvers.linear import Regularised, finite
from lvmdc.solvers.one_slack import Solution, rounding

MEMORY = 20
FLAT = 0.05  # how exactly to search along a line, in slopes


def quasi_newton(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower the objective from `start` until at most `tol` above its optimum; never ends above where it started.

    An iteration costs two passes, one for the scores of the direction and one for the gradient: scores are linear in w, so that the line
    search is free. ½‖w‖² makes the objective strongly convex, whence half the squared gradient bounds the distance to the optimum.

    Args:
        share: also stop when the gap is at most this share of what was gained since `start`.

    >>> from lvmdc.joint import ClassBlocks
    >>> from lvmdc.solvers.linear import LinearScores, SmoothRisk
    >>> class Logistic(SmoothRisk):
    ...     def value(self, scores): return float(torch.nn.functional.softplus(-scores).mean())
    ...     def weights(self, scores): return -torch.sigmoid(-scores.double()) / len(scores)
    >>> x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    >>> problem = Regularised(LinearScores(Candidates(x, [1, 1]), ClassBlocks(1)), Logistic(), C=2.0)
    >>> solution = quasi_newton(problem, problem.space.origin(), tol=1e-12)
    >>> w = solution.point.w
    >>> bool((w - (torch.sigmoid(-x * w) * x).sum()).abs() < 1e-4)  # the gradient is zero
    True
    """
    space = problem.space
    here = Point(start.w, start.scores.double())
    first = value = problem.value(here)
    gradient, reachable = problem.gradient(here), rounding(start.scores)
    pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
    for _ in range(max_iter):
        if 0.5 * float(gradient @ gradient) <= max(tol, reachable * abs(value), share * (first - value)):
            break
        along = -inverse(pairs, gradient)
        rise = finite(space.at(along).scores)
        step = level(problem.along(here, along, rise), FLAT)
        found = Point(here.w + step * along, here.scores + step * rise)
        after = problem.value(found)
        if not after < value:  # rounding, or a curvature that no longer holds: once more without it, then enough
            if not pairs:
                break
            pairs.clear()
            continue
        old, gradient = gradient, problem.gradient(found)
        pairs.append((found.w - here.w, gradient - old))
        here, value = found, after
    return Solution(here, value, 0.5 * float(gradient @ gradient))


def inverse(pairs: deque[tuple[Tensor, Tensor]], gradient: Tensor) -> Tensor:
    """H⁻¹·gradient by the two loops of L-BFGS, from pairs of a step s and the change y of the gradient, with s·y > 0.

    >>> inverse(deque([(torch.tensor([1.0]), torch.tensor([4.0]))]), torch.tensor([2.0]))  # curvature 4
    tensor([0.5000])
    """
    q, kept = gradient.clone(), []
    for s, y in reversed(pairs):
        share = float(s @ q) / float(s @ y)
        q -= share * y
        kept.append(share)
    if pairs:
        s, y = pairs[-1]
        q *= float(s @ y) / float(y @ y)
    for (s, y), share in zip(pairs, reversed(kept), strict=True):
        q += (share - float(y @ q) / float(s @ y)) * s
    return q
