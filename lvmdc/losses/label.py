"""Losses of equality or of the output alone: 0/1, label, and a table of costs between classes."""

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.base import Loss
from lvmdc.segments import segment_sum


class ZeroOneLoss(Loss):
    """Δ = 0 where y1 = y2 and h1 = h2, 1 elsewhere (section 6.1).

    Then Δ_i(y_i, h; θ) = 1 − p_i(h) and H_i(θ) = 1 − Σ_h p_i(h)², both in O(|H|).

    >>> ZeroOneLoss().diversity(Candidates(torch.zeros(2, 1), [2]), [0], torch.tensor([0.5, 0.5]))
    tensor([0.5000])
    """

    same_in_classes = True

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        return ((y1 != y2) | (h1.index != h2.index)).to(torch.get_default_dtype())

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        return (y1 != y2).to(torch.get_default_dtype())

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor:
        return segment_sum(p, candidates.counts)[candidates.sample] - p


class LabelLoss(Loss):
    """Δ = [y1 ≠ y2], whatever the latent variables are: with it the framework is the latent SVM (Observation 1).

    >>> LabelLoss().diversity(Candidates(torch.zeros(2, 1), [2]), [0], torch.tensor([0.5, 0.5]))
    tensor([0.])
    """

    of_label = True
    same_in_classes = True

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        different = (y1 != y2).to(torch.get_default_dtype())
        return different.expand(np.broadcast_shapes(different.shape, h1.index.shape, h2.index.shape))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        return (y1 != y2).to(torch.get_default_dtype())

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor:
        return torch.zeros_like(p)


class CostLoss(Loss):
    """Δ = cost[y1, y2] where y1 ≠ y2, and the latent loss Δ'(y1, h1, y1, h2) where the classes agree.

    Args:
        cost: (K, K), row = truth, column = prediction; zero on the diagonal, not negative elsewhere. Need not be symmetric.
        latent: the loss inside a class; default none (`LabelLoss`).

    >>> missed = CostLoss([[0, 1], [10, 0]])  # missing class 1 costs ten times as much
    >>> missed.expected_loss(Candidates(torch.zeros(2, 1), [1, 1]), [0, 1], torch.ones(2))
    tensor([[ 0.,  1.],
            [10.,  0.]])
    """

    def __init__(self, cost: ArrayLike, latent: Loss | None = None):
        self.cost, self.latent = cost, latent
        table = as_tensor(cost)
        if table.dim() != 2 or table.shape[0] != table.shape[1]:
            raise ValueError(f"cost must have shape (K, K), but it has shape {tuple(table.shape)}")
        if bool((table < 0).any()) or not bool(table.isfinite().all()):
            raise ValueError("cost must be finite and not negative")
        if bool((table.diagonal() != 0).any()):
            raise ValueError("cost must be zero on its diagonal, since Δ(z, z) = 0; the loss inside a class is latent=")
        self._table = table.to(torch.get_default_dtype())
        self._inside = LabelLoss() if latent is None else latent
        self.needs_boxes, self.same_in_classes = self._inside.needs_boxes, self._inside.same_in_classes

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        inside = self._inside.delta(y1, h1, y2, h2)
        return torch.where(y1 == y2, inside, self.class_cost(y1, y2).to(inside.dtype))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        table = self._table.to(y1.device)
        highest = int(max(y1.max(), y2.max()))
        if highest >= len(table):
            raise ValueError(f"cost must cover class {highest}, but it has shape {tuple(table.shape)}")
        return table[y1, y2]

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor | None:
        return self._inside.within_class(candidates, p)

    def check_candidates(self, candidates: Candidates) -> None:
        self._inside.check_candidates(candidates)

    def __repr__(self) -> str:
        return f"CostLoss({len(self._table)} classes, latent={self._inside!r})"
