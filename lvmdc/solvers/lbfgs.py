"""L-BFGS, safeguarded: for problems in autograd, and for those whose scores are linear in w."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from lvmdc.solvers.linear import Regularised, finite
from lvmdc.solvers.one_slack import Solution, rounding
from lvmdc.solvers.w_block import Point

# L-BFGS for (16), and for other smooth problems, safeguarded.

ITERATIONS = 10  # between two looks at the progress


class Problem(Protocol):
    """What is lowered: C, the size of its gradient, the parameters, and the value, differentiable in them."""

    C: float

    @property
    def parameters(self) -> list[torch.nn.Parameter]: ...

    def value(self) -> torch.Tensor: ...


def lbfgs(problem: Problem, tol: float, max_rounds: int = 30) -> float:
    """Lower a problem, such as (16), by full-batch L-BFGS until a few iterations gain less than `tol`. Returns the decrease.

    A θ that does not lower the objective is not kept: the bound `slack` has kinks that a line search may trip over.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> from lvmdc.solvers.theta_block import PosteriorProblem
    >>> c, y = Candidates(torch.eye(2), [2]), torch.tensor([0])
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> bound, scores = ExpectedLoss(ZeroOneLoss(), c, y, 1), torch.tensor([[1.0], [0.0]])
    >>> problem = PosteriorProblem(LogLinear(torch.zeros(1, 2)), bound, scores, **settings)
    >>> lbfgs(problem, tol=1e-6) > 0.1  # P_θ moves to what is predicted
    True
    """
    parameters = problem.parameters
    with torch.no_grad():
        first = float(problem.value())
    kept, lowest = [p.detach().clone() for p in parameters], first
    # The gradient is of the order of C, so that what counts as none must be too.
    flat = 1e-7 * min(1.0, problem.C)
    optimizer = torch.optim.LBFGS(
        parameters, tolerance_grad=flat, max_iter=ITERATIONS, history_size=10, line_search_fn="strong_wolfe", tolerance_change=0.0
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = problem.value()
        value.backward()
        return value

    for _ in range(max_rounds):
        optimizer.step(closure)
        with torch.no_grad():
            value = float(problem.value())
        gain = lowest - value
        if gain > 0:  # false for NaN too
            kept, lowest = [p.detach().clone() for p in parameters], value
        if not gain > tol:
            break
    restore(parameters, kept)
    return first - lowest


def restore(parameters: list[torch.nn.Parameter], values: list[torch.Tensor]) -> None:
    """Put remembered values back, and forget gradients."""
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)
            parameter.grad = None


# Where along a line to stop, at no pass over the features: scores are linear in w.

STEPS, MOST = 4, 50  # evaluations once the place is bracketed: so many will do if a lower point is among them, and never more than these
FARTHEST = 2.0**20


def level(slope: Callable[[float], float], flat: float, limit: float = FARTHEST) -> float:
    """About the step in (0, limit] where a convex function stops falling: its slope, which rises, is about zero there.

    By doubling, then by the secant rule of Illinois, which halves the weight of an end that stays. 0 where it does not fall at all.

    Args:
        flat: the share of the slope at the start below which a slope counts as zero.

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
        if done >= STEPS and low > 0:
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


# L-BFGS for ½‖w‖² + C·R(w) with a smooth convex R of the scores.

MEMORY = 20
FLAT = 0.05  # how exactly to search along a line, in slopes


def quasi_newton(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower the objective from `start` until at most `tol` above its optimum; never ends above where it started.

    An iteration costs two passes, one for the scores of the direction and one for the gradient: scores are linear in w, so that the line
    search is free. ½‖w‖² makes the objective strongly convex, whence half the squared gradient bounds the distance to the optimum.

    Args:
        share: also stop when the gap is at most this share of what was gained since `start`.

    >>> from lvmdc.feature_maps import ClassBlocks
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
