"""Mini-batches: some of the training samples with all that the objective needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.losses import Loss
from lvmdc.losses.bound import BoundLoss
from lvmdc.losses.part import AtRows

CHUNK_ROWS = 1 << 15  # candidates that are looked at together when the whole training set is measured


@dataclass(frozen=True)
class Batch:
    """Samples (x_i, y_i) with their loss, the start (T,) of h*, and the packed row (n,) of the true h, −1 where it is unknown."""

    bound: BoundLoss
    start: Tensor
    known: Tensor

    @property
    def candidates(self) -> Candidates:
        return self.bound.candidates

    @property
    def y(self) -> Tensor:
        return self.bound.y


class TrainingSet:
    """All training samples on one device, from which batches are taken.

    Args:
        start: (T,) how much of each candidate the first h* holds, from `starting_weights`.
        known: (n,) packed row of the true h where it is known, −1 where not.
        limit: bytes that Δ between the candidates of a batch may take.
    """

    def __init__(
        self, candidates: Candidates, y: Tensor, loss: Loss, n_classes: int, start: Tensor, known: Tensor, limit: int | None = None
    ):
        self.candidates, self.y, self.loss, self.n_classes, self.limit = candidates, y, loss, n_classes, limit
        self.start, self.known = start, known

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> TrainingSet:
        """The same on another device."""
        parts = (self.start.to(device), self.known.to(device), self.limit)
        return TrainingSet(self.candidates.to(device), self.y.to(device), self.loss, self.n_classes, *parts)

    def batch(self, index: Tensor) -> Batch:
        """The samples `index` (m,).

        >>> from lvmdc import ZeroOneLoss
        >>> c, y, known = Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 1]), torch.tensor([1, -1])
        >>> TrainingSet(c, y, ZeroOneLoss(), 2, torch.ones(3), known).batch(torch.tensor([1, 0])).known
        tensor([-1,  2])
        """
        index = index.to(self.candidates.device)
        here = self.candidates.subset(index)
        shift = self.candidates.offsets[index] - here.offsets  # (m,): from a row of the batch to one of the set
        rows = torch.arange(here.n_candidates, device=here.device) + shift.repeat_interleave(here.counts)
        known = self.known[index]
        bound = BoundLoss(AtRows(self.loss, rows), here, self.y[index], self.n_classes, self.limit)
        return Batch(bound, self.start[rows], torch.where(known >= 0, known - shift, -1))

    def chunks(self) -> Iterator[Batch]:
        """Every sample once, in order, few enough at a time."""
        together = max(1, CHUNK_ROWS // int(self.candidates.counts.max()))
        for part in torch.arange(len(self), device=self.candidates.device).split(together):
            yield self.batch(part)
