"""A loss with the candidates of one training set: expected loss (7) and diversity (8)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.losses.pairwise import PairwiseExpectation
from lvmdc.segments import segment_sum
from lvmdc.storage.mapped import memory_budget

if TYPE_CHECKING:
    from lvmdc.losses.base import Loss


class ExpectedLoss:
    """A loss with its samples: what does not change between iterations (Δ between candidates, class costs) is computed once.

    Args:
        y: (n,) the outputs of the samples.
        limit: bytes that Δ may take; default a quarter of what is free.

    >>> from lvmdc.losses import ZeroOneLoss
    >>> expectation = ExpectedLoss(ZeroOneLoss(), Candidates(torch.zeros(2, 1), [2]), torch.tensor([1]), n_classes=2)
    >>> expectation.expected_loss(torch.tensor([0.75, 0.25]))
    tensor([[1.0000, 0.2500],
            [1.0000, 0.7500]])
    """

    def __init__(self, loss: Loss, candidates: Candidates, y: Tensor, n_classes: int, limit: int | None = None):
        loss.check_candidates(candidates)
        self.loss, self.candidates, self.y, self.n_classes, self.limit = loss, candidates, y, n_classes, limit
        self._all_classes = torch.arange(n_classes, device=y.device).expand(len(y), -1)  # (n, K)
        self._cost = loss.class_cost(y[:, None], self._all_classes)  # (n, K)
        self._classes: dict[int, ExpectedLoss] = {}

    def on(self, candidates: Candidates) -> ExpectedLoss:
        """The same on the same candidates with other features."""
        return ExpectedLoss(self.loss, candidates, self.y, self.n_classes, self.limit)

    def expected_loss(self, p: Tensor) -> Tensor:
        """Δ_i(y, h; θ) for all (y, h) (7), (T,) → (T, K), differentiable in p."""
        if self._cost is None:
            return self._every_class(p)
        sample = self.candidates.sample
        cost = self._cost.to(p.dtype) * segment_sum(p, self.candidates.counts)[:, None]  # (n, K)
        return cost[sample].scatter_(1, self.y[sample, None], self.within_class(p)[:, None])

    def within_class(self, p: Tensor) -> Tensor:
        """Δ_i(y_i, h; θ), the column of the sample's own class, (T,) → (T,), differentiable in p."""
        closed = self.loss.within_class(self.candidates, p)
        return self._own_class(p)[:, 0] if closed is None else closed

    def expected_at(self, p: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        """Δ_i(y, h; θ) at one (y, h) per sample, in O(T), (T,) → (n,), differentiable in p. At the prediction: H_i(w, θ) of (8)."""
        return segment_sum(self.loss_against(y, rows).to(p.dtype) * p, self.candidates.counts)

    def loss_against(self, y: Tensor, rows: Tensor) -> Tensor:
        """Δ(y_i, h', y, h) of every candidate h' as the truth against one prediction (y, row) per sample, (n,), (n,) → (T,)."""
        sample = self.candidates.sample
        every = torch.arange(len(sample), device=y.device)
        return self.loss.delta_at(self.candidates, self.y[sample], every, y[sample], rows[sample])

    def diversity(self, p: Tensor) -> Tensor:
        """H_i(θ) = Σ_h p_i(h) Δ_i(y_i, h; θ) (8), (T,) → (n,), differentiable in p."""
        return segment_sum(p * self.within_class(p), self.candidates.counts)

    def agreement(self, p: Tensor, q: Tensor) -> Tensor:
        """Σ_h' p_i(h') Σ_{y,h} q_i(y, h) Δ(y_i, h', y, h), H(P_θ, P_w) (1), (T,), (T, K) → (n,), differentiable in both."""
        return segment_sum((self.expected_loss(p) * q).sum(dim=1), self.candidates.counts)

    def joint_diversity(self, q: Tensor) -> Tensor:
        """Σ_{y,h} Σ_{y',h'} q_i(y, h) q_i(y', h') Δ(y, h, y', h'), H(P_w, P_w) (1), (T, K) → (n,), differentiable in q.

        Where Δ between classes does not depend on h, that part is the cost between the masses of the classes, K² numbers per sample.
        """
        counts = self.candidates.counts
        if self._cost is None:
            parts = [(self._as_class(k).expected_loss(q[:, k]) * q).sum(dim=1) for k in range(self.n_classes)]
            return segment_sum(torch.stack(parts).sum(dim=0), counts)
        mass, every = segment_sum(q, counts), torch.arange(self.n_classes, device=q.device)  # (n, K), (K,)
        between = self.loss.class_cost(every[:, None], every)
        assert between is not None
        between = between.to(q.dtype).expand(self.n_classes, -1).clone().fill_diagonal_(0)
        within = [q[:, k] * self._as_class(k).within_class(q[:, k]) for k in range(self.n_classes)]
        return (mass @ between * mass).sum(dim=1) + segment_sum(torch.stack(within).sum(dim=0), counts)

    def _as_class(self, k: int) -> ExpectedLoss:
        """The same samples if all of them had class k."""
        if self.loss.same_in_classes and self._cost is not None:
            return self
        if k not in self._classes:
            limit = max(1, memory_budget(self.candidates.device, self.limit) // self.n_classes)
            self._classes[k] = ExpectedLoss(self.loss, self.candidates, torch.full_like(self.y, k), self.n_classes, limit)
        return self._classes[k]

    @cached_property
    def _own_class(self) -> PairwiseExpectation:
        return PairwiseExpectation(self.loss, self.candidates, self.y, self.y[:, None], self.limit)

    @cached_property
    def _every_class(self) -> PairwiseExpectation:
        return PairwiseExpectation(self.loss, self.candidates, self.y, self._all_classes, self.limit)
