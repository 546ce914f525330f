"""Mini-batches: which samples they have, and all that the objective needs of them.

What is random in an epoch depends on the epoch alone: a resumed run sees the same, and so does one over several ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import Sampler

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel
from lvmdc.inference import best_of_class, best_value, own_class
from lvmdc.losses import Loss
from lvmdc.losses.base import SubsetLoss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.segments import segment_sum
from lvmdc.solvers.theta_block import with_known

CHUNK_ROWS = 1 << 15  # candidates that are measured together


class ShuffledBatches(Sampler[list[int]]):
    """All n samples once, in batches of `size`, in an order that `seed` settles: every rank goes through the same ones.

    >>> batches = ShuffledBatches(5, 2)
    >>> [len(batch) for batch in batches], sorted(sum(batches, [])), len(batches)
    ([2, 2, 1], [0, 1, 2, 3, 4], 3)
    """

    def __init__(self, n: int, size: int):
        if size < 1:
            raise ValueError(f"batch_size must be at least 1, or None, but it is {size}")
        self.n, self.size, self.seed = n, size, 0

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(self.n, generator=torch.Generator().manual_seed(self.seed))
        yield from (batch.tolist() for batch in order.split(self.size))


def epoch_seed(module: pl.LightningModule, seed: int, rank: int = 0) -> int:
    """The seed of the current epoch, on a rank."""
    key = [seed % 2**32, module.current_epoch, rank]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def seed_batches(module: pl.LightningModule, seed: int) -> None:
    """The order of the batches in this epoch."""
    batches = getattr(module.trainer.train_dataloader, "batch_sampler", None)
    if isinstance(batches, ShuffledBatches):
        batches.seed = epoch_seed(module, seed)


@dataclass(frozen=True)
class Batch:
    """Samples (x_i, y_i) of a mini-batch B.

    Over R ranks a batch lies on several of them. Each takes its own samples B_r with the weight R |B_r| / |B|, its `share`: the mean over
    ranks of share · 1/|B_r| Σ_{i in B_r} is 1/|B| Σ_{i in B}, and ranks take the mean of their gradients.

    Args:
        loss: Δ on the samples, with its expectations.
        start: (T,) the first h*, as weights of the candidates.
        known: (n,) packed row of the true h, −1 where it is unknown.
        rows: (T,) the packed rows of the candidates in the training set.
    """

    loss: ExpectedLoss
    start: Tensor
    known: Tensor
    rows: Tensor
    share: float = 1.0

    @property
    def candidates(self) -> Candidates:
        return self.loss.candidates

    @property
    def y(self) -> Tensor:
        return self.loss.y

    def impute(self, scores: Tensor) -> Tensor:
        """(T,): all mass on h*_i = argmax_h w·Ψ(x_i, y_i, h), or on the known h, for scores (T, K)."""
        rows = torch.where(self.known >= 0, self.known, best_of_class(self.candidates, scores, self.y))
        return torch.zeros_like(scores[:, 0]).index_fill(0, rows, 1.0)

    def posterior(self, p_theta: ConditionalModel) -> Tensor:
        """(T,): P_θ(h | x_i, y_i) (5), all mass on the known h; differentiable in θ."""
        return with_known(p_theta.log_prob(self.candidates, self.y).exp(), self.candidates, self.known)

    def slack(self, scores: Tensor, expected_loss: Tensor, h_star: Tensor) -> Tensor:
        """(n,): ξ_i = max_{y,h} [w·Ψ(x_i, y, h) + Δ_i(y, h; θ)] − w·Ψ(x_i, y_i, h*_i) (9), for scores and losses (T, K), and h* (T,) as
        weights of the candidates; with an h* that is held it is the slack of (14)."""
        own = own_class(self.candidates, scores, self.y).masked_fill(h_star == 0, 0)
        return best_value(self.candidates, scores + expected_loss) - segment_sum(own * h_star.to(own.dtype), self.candidates.counts)


class TrainingSet:
    """All training samples on one device, or those of this rank, from which batches are taken.

    Args:
        start: (T,) the first h*, as weights of the candidates.
        known: (n,) packed row of the true h, −1 where it is unknown.
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
        """The indices (m,) on this rank of its samples in a batch (m',), and their `share` of it. A rank that has none takes one sample
        of share 0. Where every rank has all samples, each takes some of the batch.

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
        """The samples `index` (m,) of those on this rank."""
        here = self.candidates.subset(index)
        shift = self.candidates.offsets[index] - here.offsets  # (m,): from a row of the batch to one of the set
        rows = torch.arange(here.n_candidates, device=here.device) + shift.repeat_interleave(here.counts)
        known, loss = self.known[index], SubsetLoss(self.loss, rows + distributed.first_row(self.candidates))
        expected = ExpectedLoss(loss, here, self.y[index], self.n_classes, self.limit)
        return Batch(expected, self.start[rows], torch.where(known >= 0, known - shift, -1), rows, share)

    def whole(self) -> Batch:
        """All samples on this rank; nothing is copied."""
        loss = ExpectedLoss(self.loss, self.candidates, self.y, self.n_classes, self.limit)
        return Batch(loss, self.start, self.known, torch.arange(self.candidates.n_candidates, device=self.candidates.device))

    def chunks(self) -> Iterator[Batch]:
        """Every sample on this rank once, in order, in batches that fit in memory."""
        together = max(1, CHUNK_ROWS // int(self.candidates.counts.max()))
        for part in torch.arange(len(self), device=self.candidates.device).split(together):
            yield self.take(part)
