"""From a data set, proposals and features to the samples of a training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from lvmdc.candidates import Candidates
from lvmdc.data.pictures import PictureSet
from lvmdc.data.splits import split_by_class
from lvmdc.features.base import Features
from lvmdc.features.build import build_candidates
from lvmdc.features.truth import true_candidate
from lvmdc.proposals.base import Proposals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Samples:
    """Pictures with their candidates, classes y (n,) and, where the true boxes are known, the candidate h (n,) nearest to each."""

    pictures: PictureSet
    candidates: Candidates
    y: Tensor
    h: Tensor | None

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, index: Tensor) -> Samples:
        """Some of the samples, in that order."""
        h = None if self.h is None else self.h[index]
        return Samples(self.pictures.subset(index), self.candidates.subset(index), self.y[index], h)

    def to(self, device: torch.device) -> Samples:
        """The same on another device; pictures stay where they are."""
        h = None if self.h is None else self.h.to(device)
        return Samples(self.pictures, self.candidates.to(device), self.y.to(device), h)


class LatentDataModule(pl.LightningDataModule):
    """The training, validation and test samples of one fold.

    Args:
        pictures: the data set.
        proposals: where its candidates are, or a function that makes proposals for a data set.
        features: what they look like.
        fold: which of the independent 60/40 divisions by class; `fraction` of every class trains, the rest tests.
        val_fraction: share of the training part that is held out to choose by; the test part is for the end alone.
        cache_dir: where candidates are kept between runs.
        batch_size: samples in a mini-batch of the stochastic solver; None: all of them at once, as the exact solver needs.
    """

    def __init__(
        self,
        pictures: PictureSet,
        proposals: Proposals | Callable[[PictureSet], Proposals],
        features: Features,
        fold: int = 0,
        fraction: float = 0.6,
        split_seed: int = 0,
        val_fraction: float = 0.0,
        cache_dir: str | Path | None = None,
        batch_size: int | None = None,
        progress: bool = True,
    ):
        super().__init__()
        if not 0 <= val_fraction < 1:
            raise ValueError(f"val_fraction must lie in [0, 1), but it is {val_fraction}")
        self.pictures, self.features, self.cache_dir, self.progress = pictures, features, cache_dir, progress
        self.proposals = proposals if isinstance(proposals, Proposals) else proposals(pictures)
        self.fold, self.fraction, self.split_seed, self.val_fraction, self.batch_size = fold, fraction, split_seed, val_fraction, batch_size
        self.train: Samples | None = None
        self.val: Samples | None = None
        self.test: Samples | None = None

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by index."""
        return self.pictures.classes

    def setup(self, stage: str | None = None) -> None:
        """Candidates of all pictures, from the cache where it has them, and the division into parts; once, whatever the stage."""
        if self.train is not None:
            return
        candidates = build_candidates(self.pictures, self.proposals, self.features, self.cache_dir, self.progress)
        h = None
        if self.pictures.boxes is not None:
            h, overlap = true_candidate(candidates, self.pictures.boxes)
            a_picture, found = candidates.n_candidates / len(candidates), 100 * float((overlap >= 0.5).double().mean())
            log.info("proposals: %.1f boxes a picture, %.1f %% of the true boxes found at IoU 0.5", a_picture, found)
        everything = Samples(self.pictures, candidates, self.pictures.y, h)
        train, test = split_by_class(everything.y, self.fraction, self.fold, self.split_seed, self.pictures.groups)
        self.test = everything.subset(test)
        self.train = everything.subset(train)
        if self.val_fraction > 0:
            groups = self.train.pictures.groups
            keep, held_out = split_by_class(self.train.y, 1 - self.val_fraction, self.fold, self.split_seed + 1, groups)
            self.val, self.train = self.train.subset(held_out), self.train.subset(keep)

    def train_dataloader(self) -> DataLoader:
        """Indices into `train`: those of a mini-batch, or all of them."""
        assert self.train is not None
        index = torch.arange(len(self.train))
        if self.batch_size is None:
            return DataLoader([index], batch_size=None)  # type: ignore[arg-type]
        return DataLoader(index, batch_size=self.batch_size, shuffle=True, collate_fn=torch.stack)  # type: ignore[arg-type]

    def val_dataloader(self) -> list[DataLoader]:
        """The whole validation part as one batch of indices; nothing where there is none."""
        return [] if self.val is None else [DataLoader([torch.arange(len(self.val))], batch_size=None)]  # type: ignore[arg-type]

    def test_dataloader(self) -> DataLoader:
        """The whole test part as one batch of indices."""
        assert self.test is not None
        return DataLoader([torch.arange(len(self.test))], batch_size=None)  # type: ignore[arg-type]
