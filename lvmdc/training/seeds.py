"""What is random in an epoch depends on the epoch alone: a resumed run sees the same, and so does one over several ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import Sampler


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
