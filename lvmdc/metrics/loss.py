"""The user's own loss as a measure."""

from typing import Protocol

from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates


class SampleLoss(Protocol):
    """What is asked of a loss here; every `lvmdc.losses.Loss` has it."""

    def between(self, candidates: Candidates, y1: ArrayLike, h1: ArrayLike, y2: ArrayLike, h2: ArrayLike) -> Tensor:
        """(n,) the loss of each sample's prediction (y2, h2) against its truth (y1, h1)."""


def test_loss(loss: SampleLoss, candidates: Candidates, y: ArrayLike, h: ArrayLike, y_hat: ArrayLike, h_hat: ArrayLike) -> float:
    """The mean of Δ(y, h, y_hat, h_hat) over the samples: what the paper's figures show.

    >>> import torch
    >>> from lvmdc.losses import ZeroOneLoss
    >>> candidates = Candidates(torch.zeros(4, 1), [2, 2])
    >>> test_loss(ZeroOneLoss(), candidates, y=[0, 1], h=[0, 1], y_hat=[0, 1], h_hat=[0, 0])
    0.5
    """
    return float(loss.between(candidates, y, h, y_hat, h_hat).mean())
