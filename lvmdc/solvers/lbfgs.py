"""L-BFGS, safeguarded: for problems in autograd, for those whose scores are linear in w, and for (16) where P_θ is log-linear.

The search for (16) is that of A. S. Lewis, M. L. Overton, Nonsmooth optimization via quasi-Newton methods, Mathematical Programming 141,
2013, with the weak conditions of Wolfe: the bound `slack` has kinks, at which the strong ones may have no answer.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.distributions.conditional import LogLinear
from lvmdc.objective import half_square, half_squares
from lvmdc.solvers.linear import Regularised, finite, level
from lvmdc.solvers.theta_block import PosteriorProblem
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
        share = (s @ q) / (s @ y)
        q -= share * y
        kept.append(share)
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), share in zip(pairs, reversed(kept), strict=True):
        q += (share - (y @ q) / (s @ y)) * s
    return q


# ---- (16) where P_θ is log-linear: its scores are linear in θ, so that a search along a line costs no pass ----------------

THETA_MEMORY = 10  # pairs of a step and a change of the gradient
ENOUGH = 0.1  # an iteration that gains, or by its curvature would gain, this share of the tolerance is the last
FALL, LESS = 1e-4, 0.9  # conditions of Wolfe: what a step must gain by the slope at its start, and how much of that slope may be left
EVALUATIONS = 30  # the most along one line: bisection is then at the limit of rounding
MAX_ITER = 300  # far more than were needed; a limit so that a faulty loss cannot loop

Line = Callable[[float], tuple[float, float, Tensor]]  # step ↦ value, slope, and the derivative in the scores


def log_linear_lbfgs(problem: PosteriorProblem, model: LogLinear, tol: float, scores: Tensor | None = None) -> float:
    """Lower (16) until little of `tol` is left to gain; returns the decrease, which is never negative.

    Args:
        scores: (T,) of P_θ at the current θ, where they are known.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> loss, model = ExpectedLoss(ZeroOneLoss(), Candidates(torch.eye(2), [2]), torch.tensor([0]), 1), LogLinear(torch.zeros(1, 2))
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> problem = PosteriorProblem(model, loss, torch.tensor([[1.0], [0.0]]), **settings)
    >>> log_linear_lbfgs(problem, model, tol=1e-6) > 0.1  # P_θ moves to what is predicted
    True
    """
    phi, y, J = problem.candidates.for_phi(), problem.y, problem.J
    theta = model.theta.detach().double().flatten()
    if scores is None:
        with torch.no_grad():
            scores = problem.model.scores(problem.candidates, y)
    scores = scores.double()

    def gradient_at(theta: Tensor, slopes: Tensor) -> Tensor:
        return J * theta + distributed.total(phi, model.joint.own_transpose(phi, slopes, y))

    risk, slopes = _risk(problem, scores)
    value = first = float(J * half_squares([theta]) + risk)
    gradient = gradient_at(theta, slopes)
    pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=THETA_MEMORY)
    for _ in range(MAX_ITER):
        along = -inverse(pairs, gradient)
        fall = float(gradient @ along)
        # Half the slope is what a step of length 1 gains by the curvature; J is all that is known of it at first.
        if not fall < 0 or -fall / 2 <= ENOUGH * tol * (1.0 if pairs else J):
            break
        with torch.no_grad():
            rise = finite(model.joint.own_scores(phi, along, y))
        # Read at once: the host waits for the device only then.
        numbers = half_squares([theta]), theta @ along, along @ along, rise.abs().max().double()
        constant, tilt, bend, furthest = torch.stack(numbers).tolist()
        # Without a curvature the length of the gradient means nothing: what matters is how far the scores move, and that J curves too.
        start = 1.0 if pairs else 1 / max(distributed.highest(phi, furthest), J, 1e-300)
        found = _search(_line(problem, (J * constant, J * tilt, J * bend), scores, rise), value, fall, start)
        problem.evaluations += 1
        if found is None:
            if not pairs:
                break
            pairs.clear()
            continue
        before, (step, value, slopes) = value, found
        theta, scores = theta + step * along, scores + step * rise
        old, gradient = gradient, gradient_at(theta, slopes)
        if float(along @ (gradient - old)) > 0:
            pairs.append((step * along, gradient - old))
        if before - value <= ENOUGH * tol:
            break
    with torch.no_grad():
        model.theta.copy_(theta.reshape(model.theta.shape))
    return first - value


def lengthen(problem: PosteriorProblem, model: LogLinear, most: float, scores: Tensor) -> float:
    """Multiply θ, of scores (T,), by the best of a few factors up to `most`, by which C has grown; returns that factor.

    Where scores are small it is `most`, and little is left to gain.

    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> c, y = Candidates(torch.eye(2), [2]), torch.tensor([0])
    >>> settings = dict(J=1e-3, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> model = LogLinear(torch.tensor([[0.1, 0.0]]))
    >>> problem = PosteriorProblem(model, ExpectedLoss(ZeroOneLoss(), c, y, 1), torch.tensor([[1.0], [0.0]]), **settings)
    >>> lengthen(problem, model, 10.0, scores=torch.tensor([0.1, 0.0])), model.theta.detach()
    (10.0, tensor([[1., 0.]]))
    """
    norm = problem.J * half_square(model.theta)
    with torch.no_grad():
        best, lowest = 1.0, float("inf")
        for longer in (most, most**0.75, most**0.5, most**0.25, 1.0):
            risk = problem.risk(problem.posterior_of(longer * scores))
            value = longer**2 * norm + float(distributed.total(problem.candidates, risk))
            if value >= lowest:
                break
            best, lowest = longer, value
        model.theta.mul_(best)
    return best


def _risk(problem: PosteriorProblem, scores: Tensor) -> tuple[Tensor, Tensor]:
    """C/n Σ_i (B_i − β H_i) and its derivative in the scores of P_θ (T,)."""
    scores = scores.to(problem.scores.dtype).requires_grad_()
    value = problem.risk(problem.posterior_of(scores))
    (slopes,) = torch.autograd.grad(value, scores)
    return distributed.total(problem.candidates, value.detach()), slopes.detach()


def _line(problem: PosteriorProblem, regulariser: tuple[float, float, float], scores: Tensor, rise: Tensor) -> Line:
    """(16) at θ + step·along, where the scores of P_θ are scores + step·rise, and J/2 ‖θ‖², its slope and its curvature are given."""
    constant, tilt, bend = regulariser

    def at(step: float) -> tuple[float, float, Tensor]:
        risk, slopes = _risk(problem, scores + step * rise)
        # The derivative in the score of a candidate that the class lacks may be NaN; it has no part in the slope.
        slope = distributed.total(problem.candidates, slopes.double().nan_to_num(0.0, 0.0, 0.0) @ rise)
        here, rate = torch.stack([risk, slope]).tolist()
        return constant + step * tilt + step * step / 2 * bend + here, tilt + step * bend + rate, slopes

    return at


def _search(line: Line, value: float, fall: float, step: float) -> tuple[float, float, Tensor] | None:
    """A step, the value there and the derivative in the scores, by bisection of where the conditions of Wolfe change; None without one."""
    low, high, kept = 0.0, float("inf"), None
    for _ in range(EVALUATIONS):
        here, slope, slopes = line(step)
        if not here < value + FALL * step * fall:  # true of NaN too
            high = step
        else:
            kept, low = (step, here, slopes), step
            if slope >= LESS * fall:
                break
        step = 2 * step if high == float("inf") else (low + high) / 2
    return kept
