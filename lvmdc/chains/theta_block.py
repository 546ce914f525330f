"""The θ block on chains: problem (16)."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmdc.chains.distribution import ChainConditional, ChainDistribution
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.scores import ChainScores
from lvmdc.chains.sequences import Chains
from lvmdc.chains.w_block import ChainHinge, own_viterbi
from lvmdc.solvers.lbfgs import lbfgs, restore
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound

SMOOTH, SHARPER = 0.03, 6.0  # the first smoothing of the slack, in units of the loss, and what it is divided by


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
        self.evaluations, self.smoothing = 0, 0.0
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
        # The derivative of a maximum is that of the maximising h, held fixed; smoothed, that of the mean over their distribution.
        site_loss = self.loss.site_loss(p.detach(), self.chains.counts)
        blocks = self.w.reshape(self.hinge.n_classes, -1)
        if self.smoothing:
            value, q = self._smooth_maximum(blocks, site_loss)
            own = value + (q * (self.loss.site_loss(p, self.chains.counts) - site_loss)).sum(dim=(1, 2))
            both = torch.stack([own, self.others.to(p)])
            return self.smoothing * (both / self.smoothing).logsumexp(dim=0) - self.hinge.truth_score(self.w).to(p)
        value, h = own_viterbi(self.hinge.map, self.hinge.chains, blocks, self.y, site_loss)
        expected = self.loss.expected(p, h, self.chains.counts)
        own = value.to(p) + (expected - expected.detach())
        return torch.maximum(own, self.others.to(p)) - self.hinge.truth_score(self.w).to(p)

    def _smooth_maximum(self, blocks: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        """(n,), (n, m, S): μ log Σ_h exp((w·Ψ(x_i, y_i, h) + Σ_t added[i, t, h_t]) / μ), μ the smoothing, and its derivative in `added`."""
        value, q = added.new_zeros(len(self.y)), torch.zeros_like(added)
        for k in self.y.unique().tolist():
            some = (self.y == k).nonzero().flatten()
            part = self.hinge.chains.subset(some).to(dtype=added.dtype)
            scores = self.hinge.map.scores(part, blocks[k].to(added)).plus(added[some, : part.longest])
            pairwise = None if scores.pairwise is None else scores.pairwise / self.smoothing
            P = ChainDistribution(ChainScores(scores.unary / self.smoothing, pairwise, scores.lengths))
            value[some], q[some, : part.longest] = self.smoothing * P.log_partition, P.marginals
        return value, q

    def lower(self, tol: float) -> float:
        """Lower the objective by L-BFGS until little more than `tol` is left to gain; returns the decrease.

        ξ has a kink wherever two labelings tie, and L-BFGS stops at kinks. So maxima are smoothed, less and less, until what that changes
        is of the order of the tolerance. The θ of lowest objective, without smoothing, is kept.
        """
        if self.theta_bound == "prediction":
            return lbfgs(self, tol)
        with torch.no_grad():
            first = lowest = float(self.value())
        kept, smoothing = [p.detach().clone() for p in self.parameters], SMOOTH
        while True:
            self.smoothing = smoothing
            lbfgs(self, tol)
            self.smoothing = 0.0
            with torch.no_grad():
                value = float(self.value())
            if value < lowest:
                kept, lowest = [p.detach().clone() for p in self.parameters], value
            if smoothing * self.C <= tol:
                break
            smoothing /= SHARPER
        restore(self.parameters, kept)
        return first - lowest
