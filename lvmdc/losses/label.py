"""The loss of the label alone."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.base import Loss


class LabelLoss(Loss):
    """Δ = [y1 ≠ y2], whatever the latent variables are: with it the framework is the latent SVM (Observation 1).

    >>> LabelLoss().diversity(Candidates(torch.zeros(2, 1), [2]), [0], torch.tensor([0.5, 0.5]))
    tensor([0.])
    """

    of_label = True
    alike_in_classes = True

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        different = (y1 != y2).to(torch.get_default_dtype())
        return different.expand(torch.broadcast_shapes(different.shape, h1.index.shape, h2.index.shape))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        return (y1 != y2).to(torch.get_default_dtype())

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor:
        return torch.zeros_like(p)
