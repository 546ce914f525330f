"""What is random in an epoch depends on the epoch alone: a resumed run sees the same."""

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import RandomSampler


def epoch_seed(module: pl.LightningModule, seed: int) -> int:
    """The seed of the current epoch, on this rank."""
    key = [seed % 2**32, module.current_epoch, module.global_rank]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def seed_batches(module: pl.LightningModule, seed: int) -> None:
    """The order of the batches; over several ranks Lightning sees to it."""
    sampler = getattr(module.trainer.train_dataloader, "sampler", None)
    if isinstance(sampler, RandomSampler):
        sampler.generator = torch.Generator().manual_seed(epoch_seed(module, seed))
