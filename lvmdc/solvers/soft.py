"""The dissimilarity (2) of two soft distributions as a problem in w and θ together."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmdc.distributions import ConditionalModel, Joint, Prediction
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import half_squares
from lvmdc.solvers.theta_block import with_known


class SoftProblem:
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i D_i over w and θ, where the prediction is a distribution too, P_w(y, h | x) ∝ exp(score(y, h) / T):

    D_i = H(P_θ, P_w) − β H(P_θ, P_θ) − (1−β) H(P_w, P_w) (2), every term in closed form or as an exact sum (`ExpectedLoss`).

    Differentiable in both. As T → 0 P_w is the delta (4), H(P_w, P_w) vanishes and D_i is the paper's H_i(w, θ) − β H_i(θ) (8).

    Args:
        start: (T,) replaces P_θ, whose θ then stays, as at the beginning of learning; None: P_θ itself.
        known: (n,) packed row of the true h where it is known, −1 where not: there P_θ is a delta, whatever θ is.

    >>> from lvmdc.distributions import LinearPrediction, LogLinear
    >>> from lvmdc.losses import ZeroOneLoss
    >>> loss, flat = ExpectedLoss(ZeroOneLoss(), Candidates(torch.eye(2), [2]), torch.tensor([0]), 2), torch.zeros(2, 2)
    >>> problem = SoftProblem(LinearPrediction(flat), LogLinear(flat), loss, torch.tensor([-1]), C=1.0, J=0.1, beta=0.1, temperature=1.0)
    >>> round(float(problem.value().detach()), 4)  # ¾ − β/2 − (1−β) ¾: P_w over four (y, h), P_θ over two h
    0.025
    """

    def __init__(
        self,
        p_w: Prediction,
        p_theta: ConditionalModel,
        loss: ExpectedLoss,
        known: Tensor,
        C: float,
        J: float,
        beta: float,
        temperature: float,
        start: Tensor | None = None,
    ):
        self.p_w, self.p_theta, self.loss, self.known, self.start = p_w, p_theta, loss, known, start
        self.C, self.J, self.beta, self.temperature = C, J, beta, temperature
        self.evaluations = 0

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """w, and θ unless it stays."""
        return [*self.p_w.parameters(), *(self.p_theta.parameters() if self.start is None else ())]

    def posterior(self) -> Tensor:
        """(T,): P_θ(h | x_i, y_i), a delta where h is known; the start where there is one."""
        if self.start is not None:
            return self.start
        return with_known(self.p_theta.log_prob(self.loss.candidates, self.loss.y).exp(), self.loss.candidates, self.known)

    def value(self) -> Tensor:
        """The objective, differentiable in w and θ."""
        self.evaluations += 1
        p = self.posterior()
        scores = self.p_w.scores(self.loss.candidates)
        risk = self.against(scores, p) - self.beta * self.loss.diversity(p)
        return self.regulariser() + self.C * risk.double().mean()

    def against(self, scores: Tensor, p: Tensor) -> Tensor:
        """(n,): H(P_θ, P_w) − (1−β) H(P_w, P_w), which replaces the slack, from the scores (T, K) and P_θ (T,)."""
        q = Joint.softmax(self.loss.candidates, scores, self.temperature).p
        p = p.to(q.dtype)
        return self.loss.agreement(p, q) - (1 - self.beta) * self.loss.joint_diversity(q)

    def regulariser(self) -> Tensor:
        """½‖w‖² + J/2 ‖θ‖²."""
        return half_squares(self.p_w) + self.J * half_squares(self.p_theta)
