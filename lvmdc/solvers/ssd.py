"""Stochastic subgradient descent for (16): Algorithm 2, with the subgradient (17) corrected."""

import torch

from lvmdc.objective import half_square
from lvmdc.solvers.lbfgs import restore
from lvmdc.solvers.theta_block import PosteriorProblem


def subgradient(problem: PosteriorProblem) -> list[torch.Tensor]:
    """λθ + ∇B_i(w, θ) − β∇H_i(θ), λ = J/C, of a problem on one sample: a subgradient of (16) divided by C, (17).

    The paper prints θ + ∇H_i(w, θ) + ∇H_i(θ); with those signs P_θ would lose its diversity instead of keeping it.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> c, y = Candidates(torch.eye(2), [2]), torch.tensor([0])
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> loss, scores = ExpectedLoss(ZeroOneLoss(), c, y, 1), torch.tensor([[1.0], [0.0]])
    >>> problem = PosteriorProblem(LogLinear(torch.zeros(1, 2)), loss, scores, **settings)
    >>> subgradient(problem)[0]  # at θ = 0: ∂(1 − p)/∂θ, and the diversity is at its peak
    tensor([[-0.2500,  0.2500]])
    """
    return list(torch.autograd.grad(problem.value() / problem.C, problem.parameters))


def ssd(problem: PosteriorProblem, seed: int, epochs: int = 10) -> float:
    """Lower (16) by Algorithm 2: steps 1/(λt) on one random sample each; the lowest θ after an epoch is kept. Returns the decrease.

    The first step is 1/λ long, which may be a thousand, so θ is projected onto the ball that must hold
    the optimum: J/2 ‖θ*‖² ≤ F(θ*) + CβH ≤ F(θ_0) + CβH, with H a bound of the self-diversity.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ExpectedLoss, ZeroOneLoss
    >>> loss, model = ExpectedLoss(ZeroOneLoss(), Candidates(torch.eye(2), [2]), torch.tensor([0]), 1), LogLinear(torch.zeros(1, 2))
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> problem = PosteriorProblem(model, loss, torch.tensor([[1.0], [0.0]]), **settings)
    >>> ssd(problem, seed=0) > 0.1  # P_θ moves to what is predicted
    True
    """
    parameters, n = problem.parameters, len(problem.candidates)
    if problem.J <= 0:
        raise ValueError(f"theta_solver='ssd' steps by 1/λ with λ = J/C and needs J > 0, but J is {problem.J}")
    with torch.no_grad():
        first = float(problem.value())
    kept, lowest = [p.detach().clone() for p in parameters], first
    # A self-diversity is a mean of Δ within the class, so the largest sum of Δ over a sample's candidates bounds it.
    highest = float(problem.loss.within_class(torch.ones_like(problem.scores[:, 0])).max())
    radius = (2 * max(0.0, first + problem.C * problem.beta * highest) / problem.J) ** 0.5
    generator = torch.Generator().manual_seed(seed)
    rate, t = problem.J / problem.C, 0
    for _ in range(epochs):
        for i in torch.randint(n, (n,), generator=generator).tolist():
            t += 1
            gradient = subgradient(problem.on_sample(i))
            with torch.no_grad():
                for parameter, g in zip(parameters, gradient, strict=True):
                    parameter.sub_(g, alpha=1 / (rate * t))
                norm = (2 * half_square(*parameters)) ** 0.5
                if norm > radius:
                    for parameter in parameters:
                        parameter.mul_(radius / norm)
        with torch.no_grad():
            value = float(problem.value())
        if value < lowest:
            kept, lowest = [p.detach().clone() for p in parameters], value
    restore(parameters, kept)
    return first - lowest
