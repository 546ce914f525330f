"""L-BFGS for (16), and for other smooth problems, safeguarded."""

from typing import Protocol

import torch

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
    >>> from lvmdc.losses import BoundLoss, ZeroOneLoss
    >>> from lvmdc.solvers.posterior import PosteriorProblem
    >>> c, y = Candidates(torch.eye(2), [2]), torch.tensor([0])
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> bound, scores = BoundLoss(ZeroOneLoss(), c, y, 1), torch.tensor([[1.0], [0.0]])
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
