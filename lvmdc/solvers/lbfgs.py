"""L-BFGS, safeguarded: for problems in autograd, such as (16), and for those whose scores are linear in w."""

from collections import deque
from typing import Protocol

import torch
from torch import Tensor

from lvmdc.solvers.linear import Regularised, finite, level
from lvmdc.solvers.w_block import Point, Solution, rounding

ITERATIONS = 10  # of L-BFGS between two looks at the progress, each of which costs an evaluation
MEMORY = 20  # pairs of a step and a change of the gradient; each costs two vectors and two products
FLAT = 0.05  # how exactly to search along a line, in slopes


class Problem(Protocol):
    """What is lowered: C, the scale of its gradient, the parameters, and the value, differentiable in them."""

    C: float

    @property
    def parameters(self) -> list[torch.nn.Parameter]: ...

    def value(self) -> torch.Tensor: ...


def lbfgs(problem: Problem, tol: float, max_rounds: int = 30) -> float:
    """Lower a problem by full-batch L-BFGS until ten iterations gain less than `tol`. Returns the decrease.

    Parameters that do not lower the objective are not kept: the bound `slack` has kinks at which a line search may fail.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> from lvmdc.solvers.theta_block import PosteriorProblem
    >>> loss, model = ExpectedLoss(ZeroOneLoss(), Candidates(torch.eye(2), [2]), torch.tensor([0]), 1), LogLinear(torch.zeros(1, 2))
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> problem = PosteriorProblem(model, loss, torch.tensor([[1.0], [0.0]]), **settings)
    >>> lbfgs(problem, tol=1e-6) > 0.1  # P_θ moves to what is predicted
    True
    """
    parameters = problem.parameters
    with torch.no_grad():
        first = float(problem.value())
    kept, lowest = [p.detach().clone() for p in parameters], first
    # The gradient is of the order of C, so what counts as zero must be too.
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
    """Put remembered values back, and drop the gradients."""
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)
            parameter.grad = None


def quasi_newton(problem: Regularised, start: Point, tol: float, share: float = 0.0, max_iter: int = 1000) -> Solution:
    """Lower ½‖w‖² + C·R(w) with a smooth convex R from `start` until at most `tol` above its optimum; never ends above `start`.

    An iteration costs two passes, one for the scores of the direction and one for the gradient; the search along the line costs none.
    The gap is true: the objective is strongly convex of modulus 1, hence half the squared gradient bounds the distance to the optimum.

    Args:
        share: also stop when the gap is at most this share of what was gained since `start`.
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
        if not after < value:  # rounding, or a curvature that no longer holds: try once without it
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
