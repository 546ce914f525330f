"""Mini-batches: some of the training samples with all that the objective needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.losses import Loss
from lvmdc.losses.bound import BoundLoss
from lvmdc.losses.part import AtRows

CHUNK_ROWS = 1 << 15  # candidates that are looked at together when the whole training set is measured


@dataclass(frozen=True)
class Batch:
    """Samples (x_i, y_i) with their loss, the start (T,) of h*, and the packed row (n,) of the true h, −1 where it is unknown; `rows`
    (T,) is where their candidates stand in the set.

    Over R ranks a batch B lies on several of them. Each takes its own samples B_r with the weight R |B_r| / |B|, its `share`: the mean over
    ranks of share · 1/|B_r| Σ_{i in B_r} is 1/|B| Σ_{i in B}, and the mean is what ranks take of their gradients.
    """

    bound: BoundLoss
    start: Tensor
    known: Tensor
    rows: Tensor
    share: float = 1.0

    @property
    def candidates(self) -> Candidates:
        return self.bound.candidates

    @property
    def y(self) -> Tensor:
        return self.bound.y


class TrainingSet:
    """All training samples on one device, or this rank's, from which batches are taken.

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
        """The samples `index` (m,) of the whole set, or those of them that this rank has.

        >>> from lvmdc import ZeroOneLoss
        >>> c, y, known = Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 1]), torch.tensor([1, -1])
        >>> TrainingSet(c, y, ZeroOneLoss(), 2, torch.ones(3), known).batch(torch.tensor([1, 0])).known
        tensor([-1,  2])
        """
        return self.take(*self.own(index.to(self.candidates.device)))

    def own(self, index: Tensor) -> tuple[Tensor, float]:
        """Which samples (m,) of this rank those of a batch (m',) are, and their `share` of it; where none is, one that counts nothing.
        Where every rank has all samples, each takes some of the batch.

        >>> TrainingSet(Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 1]), None, 2, None, None).own(torch.tensor([1, 0]))
        (tensor([1, 0]), 1.0)
        """
        at, (rank, world) = self.candidates.shard, distributed.ranks()
        if at is None:
            few = len(index) < world  # then each takes all of them, and their mean is the same
            return (index, 1.0) if few else (index[rank::world], world * len(index[rank::world]) / len(index))
        mine = index[(index >= at.samples[at.rank]) & (index < at.samples[at.rank + 1])] - at.first("samples")
        if len(mine) == 0:  # every rank must have a gradient of all parameters
            return index.new_zeros(1), 0.0
        return mine, (len(at.samples) - 1) * len(mine) / len(index)

    def take(self, index: Tensor, share: float = 1.0) -> Batch:
        """The samples `index` (m,) of those that are here."""
        here = self.candidates.subset(index)
        shift = self.candidates.offsets[index] - here.offsets  # (m,): from a row of the batch to one of the set
        rows = torch.arange(here.n_candidates, device=here.device) + shift.repeat_interleave(here.counts)
        known = self.known[index]
        bound = BoundLoss(AtRows(self.loss, rows + distributed.first_row(self.candidates)), here, self.y[index], self.n_classes, self.limit)
        return Batch(bound, self.start[rows], torch.where(known >= 0, known - shift, -1), rows, share)

    def whole(self) -> Batch:
        """All samples that are here; nothing is copied."""
        bound = BoundLoss(self.loss, self.candidates, self.y, self.n_classes, self.limit)
        return Batch(bound, self.start, self.known, torch.arange(self.candidates.n_candidates, device=self.candidates.device))

    def chunks(self) -> Iterator[Batch]:
        """Every sample, of this rank, once, in order, few enough at a time."""
        together = max(1, CHUNK_ROWS // int(self.candidates.counts.max()))
        for part in torch.arange(len(self), device=self.candidates.device).split(together):
            yield self.take(part)
