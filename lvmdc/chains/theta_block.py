"""The θ block on chains: problem (16)."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmdc.chains.distribution import ChainConditional
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.sequences import Chains
from lvmdc.chains.w_block import ChainHinge, own_viterbi
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound


class ChainPosteriorProblem(PosteriorProblem):
    """J/2 ‖θ‖² + C/n Σ_i (B_i(w, θ) − β H_i(θ)) over θ for a fixed w.

    B_i is H_i(w, θ), the expected loss of the prediction (`prediction`: (15)), or ξ_i(w, θ) (`slack`: (16)).

    Args:
        chains: the sequences as P_θ sees them.
        hinge: of the w block, for its inference.
        fixed: (n, m, S), see `forbid`; None where nothing is known of h.

    >>> from lvmdc.chains import ChainMap
    >>> chains, y = Chains(torch.ones(2, 1), [2]), torch.tensor([0])
    >>> hinge = ChainHinge(chains, y, ChainMap(2, 1), n_classes=1, C=1.0, class_cost=1.0)
    >>> w = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # state 0 is predicted; θ = 0 gives it one half
    >>> model = ChainConditional(torch.zeros(1, 6), ChainMap(2, 1))
    >>> problem = ChainPosteriorProblem(model, chains, hinge, HammingLoss(), w, J=0.1, beta=0.1, theta_bound="prediction")
    >>> round(float(problem.value().detach()), 4)  # ½ − β/2
    0.45
    """

    loss: HammingLoss  # type: ignore[assignment]

    def __init__(
        self,
        conditional: ChainConditional,
        chains: Chains,
        hinge: ChainHinge,
        loss: HammingLoss,
        w: Tensor,
        J: float,
        beta: float,
        theta_bound: ThetaBound,
        fixed: Tensor | None = None,
    ):
        self.conditional, self.chains, self.hinge, self.loss, self.w, self.fixed = conditional, chains, hinge, loss, w, fixed
        self.J, self.C, self.beta, self.theta_bound = J, hinge.C, beta, theta_bound
        self.y = hinge.y
        self.evaluations = 0
        best, self.predicted = hinge.predict(w)  # (n,), (n, m)
        self.right = best == self.y  # (n,) whether the class is predicted
        if theta_bound == "slack":
            nothing = torch.zeros(len(chains), chains.longest, hinge.map.n_states, device=self.y.device)
            own = torch.arange(hinge.n_classes, device=self.y.device) == self.y[:, None]  # (n, K)
            # The greatest w·Ψ + Δ in the other classes, (n,), whatever θ is.
            self.others = hinge.augmented(w, nothing)[0].masked_fill(own, -torch.inf).amax(dim=1)

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.conditional.parameters())

    def posterior(self) -> Tensor:
        """(n, m, S): the node marginals of P_θ, which are all that the loss needs."""
        self.evaluations += 1
        return self.conditional.marginals(self.chains, self.y, self.fixed)

    def value(self, p: Tensor | None = None) -> Tensor:
        p = self.posterior() if p is None else p
        diversity = self.loss.diversity(p, self.chains.counts)
        return self.regulariser() + self.C * (self.agreement(p) - self.beta * diversity).double().mean()

    def agreement(self, p: Tensor) -> Tensor:
        """(n,): B_i(w, θ)."""
        if self.theta_bound == "prediction":
            return torch.where(self.right, self.loss.expected(p, self.predicted, self.chains.counts), self.loss.class_cost)
        # The maximising h is held fixed: its expected loss has the derivative of the maximum.
        site_loss = self.loss.site_loss(p.detach(), self.chains.counts)
        value, h = own_viterbi(self.hinge.map, self.hinge.chains, self.w.reshape(self.hinge.n_classes, -1), self.y, site_loss)
        expected = self.loss.expected(p, h, self.chains.counts)
        own = value.to(p) + (expected - expected.detach())
        return torch.maximum(own, self.others.to(p)) - self.hinge.truth_score(self.w).to(p)
