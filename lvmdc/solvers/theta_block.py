"""The θ block on one training set: problem (16)."""

from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel, weighted
from lvmdc.inference import best, best_value
from lvmdc.losses.base import SubsetLoss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import half_squares, truth_score
from lvmdc.segments import segment_softmax, segment_sum

ThetaBound = Literal["prediction", "slack"]


class PosteriorProblem:
    """J/2 ‖θ‖² + C/n Σ_i (B_i(w, θ) − β H_i(θ)) over θ for a fixed w.

    B_i is H_i(w, θ), the expected loss of the prediction (`prediction`: (15), Algorithm 2), or ξ_i(w, θ) (`slack`: (16)).

    Args:
        loss: Δ with the samples, and its expectations.
        scores: (T, K) w·Ψ of every (y, h).
        known: (n,) packed row of the true h where it is known, −1 where not: there P_θ is a delta, whatever θ is. None: nowhere.
        prediction: (n,), (n,) what w predicts, classes and packed rows; by default it is computed from the scores.

    >>> from lvmdc.distributions import LogLinear
    >>> from lvmdc.losses import ZeroOneLoss
    >>> c, y = Candidates(torch.eye(2), [2]), torch.tensor([0])
    >>> scores = torch.tensor([[1.0], [0.0]])  # the first candidate is predicted; θ = 0 gives it one half
    >>> settings = dict(J=0.1, C=1.0, beta=0.1, theta_bound="prediction", known=torch.tensor([-1]))
    >>> problem = PosteriorProblem(LogLinear(torch.zeros(1, 2)), ExpectedLoss(ZeroOneLoss(), c, y, 1), scores, **settings)
    >>> round(float(problem.value().detach()), 4)  # ½ − β/2
    0.45
    """

    def __init__(
        self,
        model: ConditionalModel,
        loss: ExpectedLoss,
        scores: Tensor,
        J: float,
        C: float,
        beta: float,
        theta_bound: ThetaBound,
        known: Tensor | None,
        prediction: tuple[Tensor, Tensor] | None = None,
    ):
        self.model, self.loss, self.scores, self.theta_bound, self.known = model, loss, scores, theta_bound, known
        self.J, self.C, self.beta = J, C, beta
        self.candidates, self.y = loss.candidates, loss.y
        self.prediction = best(self.candidates, scores) if prediction is None else prediction
        self.evaluations = 0

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """θ."""
        return list(self.model.parameters())

    def posterior(self) -> Tensor:
        """(T,): P_θ(h | x_i, y_i), a delta where h is known; differentiable in θ."""
        self.evaluations += 1
        return with_known(self.model.log_prob(self.candidates, self.y).exp(), self.candidates, self.known)

    def posterior_of(self, scores: Tensor) -> Tensor:
        """(T,): the same from known scores (T,) of P_θ, to which the prior is added; differentiable in them."""
        return with_known(segment_softmax(weighted(scores, self._log_prior), self.candidates.counts), self.candidates, self.known)

    def value(self, p: Tensor | None = None) -> Tensor:
        """The objective of the block, differentiable in θ; p (T,) is the posterior where it is known."""
        return self.regulariser() + self.risk(self.posterior() if p is None else p)

    def regulariser(self) -> Tensor:
        """J/2 ‖θ‖²."""
        return self.J * half_squares(self.parameters)

    def risk(self, p: Tensor) -> Tensor:
        """C/n Σ_i (B_i(w, θ) − β H_i(θ)) of a posterior (T,), over the samples of this rank."""
        each = (self.agreement(p) - self.beta * self.loss.diversity(p)).double()
        return self.C * (each.mean() if self.candidates.shard is None else each.sum() / distributed.n_samples(self.candidates))

    def agreement(self, p: Tensor) -> Tensor:
        """(n,): B_i(w, θ)."""
        if self.theta_bound == "prediction":
            return segment_sum(self._against.to(p.dtype) * p, self.candidates.counts)
        first = best_value(self.candidates, self.scores + self.loss.expected_loss(p))
        return first - truth_score(self.candidates, self.scores, self.y, self.known)

    @cached_property
    def _log_prior(self) -> Tensor | None:
        return self.candidates.log_prior(self.y)

    @cached_property
    def _against(self) -> Tensor:
        """(T,): Δ(y_i, h', y_i(w), h_i(w)) of every h', of which H_i(w, θ) is the mean."""
        return self.loss.loss_against(*self.prediction)

    def on_sample(self, i: int) -> "PosteriorProblem":
        """The same problem on one sample alone, for stochastic steps."""
        here = self.candidates.subset([i])
        start, count = int(self.candidates.offsets[i]), int(self.candidates.counts[i])
        known = None if self.known is None else torch.where(self.known[i : i + 1] >= 0, self.known[i : i + 1] - start, -1)
        delta = SubsetLoss(self.loss.loss, torch.arange(start, start + count, device=self.y.device))
        loss = ExpectedLoss(delta, here, self.y[i : i + 1], self.loss.n_classes, self.loss.limit)
        return PosteriorProblem(self.model, loss, self.scores[start : start + count], self.J, self.C, self.beta, self.theta_bound, known)


def with_known(p: Tensor, candidates: Candidates, known: Tensor | None) -> Tensor:
    """(T,): the probabilities p, replaced by a delta for samples whose h is known.

    >>> with_known(torch.tensor([0.5, 0.5]), Candidates(torch.eye(2), [2]), torch.tensor([1]))
    tensor([0., 1.])
    """
    if known is None or not bool((known >= 0).any()):
        return p
    delta = torch.zeros_like(p).index_fill(0, known[known >= 0], 1.0)
    return torch.where((known >= 0)[candidates.sample], delta, p)
