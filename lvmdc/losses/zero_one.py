"""The 0/1 loss."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.base import Loss
from lvmdc.segments import segment_sum


class ZeroOneLoss(Loss):
    """Δ = 0 where y1 = y2 and h1 = h2, 1 elsewhere (section 6.1).

    Then Δ_i(y_i, h; θ) = 1 − p_i(h) and H_i(θ) = 1 − Σ_h p_i(h)², both in O(|H|).

    >>> ZeroOneLoss().diversity(Candidates(torch.zeros(2, 1), [2]), [0], torch.tensor([0.5, 0.5]))
    tensor([0.5000])
    """

    alike_in_classes = True

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        return ((y1 != y2) | (h1.index != h2.index)).to(torch.get_default_dtype())

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        return (y1 != y2).to(torch.get_default_dtype())

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor:
        return segment_sum(p, candidates.counts)[candidates.sample] - p
