"""LatentDataModule: from a data set, proposals and features to the samples of a training."""

from __future__ import annotations

import logging
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from lvmdc import distributed
from lvmdc.boxes import box_area
from lvmdc.candidates import Candidates
from lvmdc.learners import LatentLearner
from lvmdc.learners.prior_strength import STRENGTHS, strength_losses
from lvmdc.lightning.batches import ShuffledBatches
from lvmdc.priors.base import Prior
from lvmdc.samples import CandidateSet, published_split, split_by_class
from lvmdc.segments import segment_max
from lvmdc.vision import metrics
from lvmdc.vision.datasets.images import ImageSet, split_at_random
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.build import build_candidates
from lvmdc.vision.features.kernel_map import KernelMap
from lvmdc.vision.features.regions import Learned
from lvmdc.vision.features.with_prior import TrainingImages, with_prior
from lvmdc.vision.metrics import true_candidate
from lvmdc.vision.proposals.base import Proposals

log = logging.getLogger(__name__)
FRACTION = 0.6  # of every class trains
LEAST_RECALL = 0.8  # of the true boxes, below which a warning says so
LEAST_SHARE = 0.25  # of an image that its largest candidate covers, below which a warning says so


@dataclass(frozen=True)
class Samples:
    """Images or other items with their candidates and labels y: (n,) classes, or (n, K) labels of images that may show several; and the
    true candidate h (n,), −1 where it is unknown: for images the one nearest to the true box. None: it is unknown for all, or images may
    show several objects."""

    items: ImageSet | CandidateSet
    candidates: Candidates
    y: Tensor
    h: Tensor | None
    divided: bool = False  # whether these are one rank's, and the other ranks have the others
    shown: Tensor | None = None  # (n,) which samples may be trained with their true h or boxes (`known_boxes`); None: none
    added: Tensor | None = None  # (n,) how many of the last candidates of each image the prior added; None: no prior that adds any

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, index: Tensor) -> Samples:
        """Some of the samples, in that order."""
        # Some may be on another device: `to` leaves `shown` and `added` where they are.
        h, shown, added = (None if values is None else values[index.to(values.device)] for values in (self.h, self.shown, self.added))
        y = self.y[index.to(self.y.device)]
        return Samples(self.items.subset(index), self.candidates.subset(index), y, h, shown=shown, added=added)

    def to(self, device: torch.device) -> Samples:
        """The same on another device; the items stay where they are."""
        h = None if self.h is None else self.h.to(device)
        return replace(self, candidates=self.candidates.to(device), y=self.y.to(device), h=h)

    def h_for(self, learner: LatentLearner) -> Tensor | None:
        """(n,) the h that a learner trains with, −1 where it must find it; None: everywhere."""
        if learner.uses_known_h or self.h is None:
            return self.h if learner.uses_known_h else None
        return None if self.shown is None else self.h.where(self.shown.to(self.h.device), -1)


class LatentDataModule(pl.LightningDataModule):
    """The training, validation and test samples of one fold.

    Args:
        images: the data set.
        proposals: where its candidates are, or a function that makes proposals for a data set.
        features: what they look like.
        samples: in place of these three, a data set that makes its candidates itself. Where it came divided, `fold`, `fraction` and
            `split_seed` divide only its training part, for validation.
        fold: which of the independent 60/40 divisions by class; `fraction` of every class trains, the rest tests; 1: all train. None:
            0.6 of the images whose boxes are known, while all others train, since nothing can be measured on them.
        split: a file with the divisions that were published with the data (see `published_split`), of which `fold` chooses one.
        val_fraction: share of the training part that is held out for validation; the test part is for the end alone.
        cache_dir: where candidates are kept between runs.
        kernel_map: an explicit map of a kernel, fitted on the training part, in front of both distributions.
        prior: what is known of h from the image alone; with images only. It is fitted on the training part, and the boxes that it suggests
            become candidates.
        prior_columns: factor on what the prior knows of each box (`Prior.columns`), which is added to the features; 0: nothing is added.
        prior_strength: factor on the log weights of the prior in training. A list of factors, or "validation" for 0, 0.3, 1 and 3: the one
            of them under which held-out labels of the training part are most likely (`strength_losses`).
        known_boxes: share of the training samples with a true h, or true boxes, that train with them; the others train with labels alone.
            None: 1 where only some of the images have boxes, else 0. A detector takes the largest object of each class.
        batch_size: samples in a mini-batch, of all ranks together; None: all of them at once, as the exact solver needs.
    """

    def __init__(
        self,
        images: ImageSet | None = None,
        proposals: Proposals | Callable[[ImageSet], Proposals] | None = None,
        features: Features | None = None,
        fold: int = 0,
        fraction: float | None = FRACTION,
        split_seed: int = 0,
        val_fraction: float = 0.0,
        cache_dir: str | Path | None = None,
        batch_size: int | None = None,
        progress: bool = True,
        samples: CandidateSet | None = None,
        split: str | Path | None = None,
        kernel_map: KernelMap | None = None,
        prior: Prior | None = None,
        prior_columns: float = 0.0,
        known_boxes: float | None = None,
        prior_strength: float | Sequence[float] | str = 1.0,
    ):
        super().__init__()
        if not 0 <= val_fraction < 1:
            raise ValueError(f"val_fraction must lie in [0, 1), but it is {val_fraction}")
        if known_boxes is not None and not 0 <= known_boxes <= 1:
            raise ValueError(f"known_boxes must be a share between 0 and 1, or None, but it is {known_boxes}")
        self.known_boxes = known_boxes
        parts = (images, proposals, features)
        if any((part is None) == (samples is None) for part in parts):
            raise ValueError("data must be either images with proposals and features, or samples, which need none of them")
        self.prior = prior or None  # an empty group of the configuration means none
        if self.prior is not None and samples is not None:
            raise ValueError("prior is computed from images, but the data are samples, which have none; use prior=none")
        if prior_columns > 0 and self.prior is None:
            raise ValueError(f"prior_columns={prior_columns:g} needs a prior, such as prior=photographs, but there is none")
        self.prior_columns = prior_columns
        self.prior_strengths = checked_strengths(prior_strength)
        self.samples, self.split, self.cache_dir, self.progress = samples, split, cache_dir, progress
        if images is not None and proposals is not None and features is not None:
            self.images, self.features = images, features
            self.proposals = proposals if isinstance(proposals, Proposals) else proposals(images)
        self.fold, self.fraction, self.split_seed, self.val_fraction, self.batch_size = fold, fraction, split_seed, val_fraction, batch_size
        self.kernel_map = kernel_map or None
        self.train: Samples | None = None
        self.val: Samples | None = None
        self.test: Samples | None = None
        if not self.one_class:
            self.division()  # refuses a class that one of the parts does not show, before any work

    @property
    def items(self) -> ImageSet | CandidateSet:
        """All that is learned from and tested with."""
        return self.images if self.samples is None else self.samples

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by index."""
        return self.items.classes

    @property
    def one_class(self) -> bool:
        """Whether each sample has exactly one class."""
        return not isinstance(self.items, ImageSet) or self.items.one_class

    def division(self) -> tuple[Tensor, Tensor]:
        """The training and the test part: as they were published, or else at random."""
        items, fraction = self.items, FRACTION if self.fraction is None else self.fraction
        if self.split is not None:
            return published_split(self.split, self.fold, items.names)
        if self.fraction == 1:
            return torch.arange(len(items)), torch.arange(0)
        if isinstance(items, ImageSet):
            if self.fraction is None and items.division is None and not bool(items.boxed.all()):
                return self._division_of_boxed(items, fraction)
            return items.split(fraction, self.fold, self.split_seed)
        if items.division is not None:
            return items.division
        return split_by_class(items.y, fraction, self.fold, self.split_seed, items.groups)

    def _division_of_boxed(self, images: ImageSet, fraction: float) -> tuple[Tensor, Tensor]:
        """The images of a class whose boxes are known are divided where there are several; all others train."""
        boxed = images.boxed
        several = images.y[boxed].bincount(minlength=len(images.classes)) > 1
        measured = (boxed & several[images.y]).nonzero().flatten()
        if len(measured) == 0:
            return torch.arange(len(images)), measured
        test = measured[images.subset(measured).split(fraction, self.fold, self.split_seed)[1]]
        return torch.ones(len(images), dtype=torch.bool).index_fill(0, test, False).nonzero().flatten(), test

    def shown(self) -> Tensor:
        """(n,) which samples train with their true h or boxes."""
        items, train = self.items, self._parts()[0]
        known = items.boxed if isinstance(items, ImageSet) else torch.full((len(items),), items.h is not None)
        share = float(bool(known.any()) and not bool(known.all())) if self.known_boxes is None else self.known_boxes
        chosen = train[known[train]]
        if 0 < share < 1:
            chosen = chosen[self._held_out(chosen, share, self.split_seed + 2)[0]]
        return torch.zeros(len(items), dtype=torch.bool).index_fill(0, chosen if share > 0 else chosen[:0], True)

    @property
    def has_test(self) -> bool:
        """Whether some of the data are for testing."""
        return len(self.division()[1]) > 0

    def setup(self, stage: str | None = None) -> None:
        """The candidates of everything, and the division into parts; once, whatever the stage."""
        if self.train is not None:
            return
        train, held_out, test = self._parts()
        direct = self.samples
        every = self.of_images(train) if direct is None else Samples(direct, direct.candidates(), direct.y, direct.h)
        if bool((shown := self.shown()).any()):
            every = replace(every, shown=shown)
        if self.kernel_map is not None:
            self.kernel_map.fit(every.candidates.subset(train))  # and on nothing else
        self.test = self._own(every, test, "test") if len(test) else None
        self.val = self._own(every, held_out, "validation") if len(held_out) else None
        self.train = self._own_training(every, train)

    def train_with(self, learner: LatentLearner) -> Samples:
        """The training samples, with the prior at the strength that `prior_strength` asks for."""
        if self._strengthened is not None:
            return self._strengthened
        train, strengths = self.train, self.prior_strengths
        assert train is not None
        candidates = train.candidates
        if candidates.prior is None or strengths == (1.0,):
            return train
        best = strengths[0]
        if len(strengths) > 1:
            if distributed.ranks()[1] > 1 or not self.one_class or isinstance(getattr(self, "features", None), Learned):
                reason = "is chosen in one process, on data of one class each, with features that are not learned"
                raise ValueError(f"data.prior_strength {reason}; give one number, such as data.prior_strength=1")
            losses = strength_losses(learner, candidates, train.y, train.h_for(learner), strengths, progress=self.progress)
            best = min(losses, key=losses.__getitem__)
            found = ", ".join(f"{loss:.3f} at {strength:g}" for strength, loss in losses.items())
            log.info("strength of the prior: %g × its own, by the −log likelihood of held-out labels: %s", best, found)
        self._strengthened = replace(train, candidates=candidates.with_prior(candidates.prior, best))
        return self._strengthened

    _strengthened: Samples | None = None  # chosen once

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The samples that train, validate and test."""
        train, test = self.division()
        if self.val_fraction == 0:
            return train, train[:0], test
        keep, out = self._held_out(train, 1 - self.val_fraction, self.split_seed + 1)
        return train[keep], train[out], test

    def _held_out(self, train: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
        """Which of the training samples stay, a share of every class where each has one, and which do not."""
        parts = (share, self.fold, seed)
        if self.one_class:
            items = self.items
            return split_by_class(items.y[train], *parts, None if items.groups is None else items.groups[train])
        return split_at_random(len(train), *parts)

    @property
    def divides(self) -> bool:
        """Whether every rank holds some of the samples; where features are learned, each looks at all images."""
        return not isinstance(getattr(self, "features", None), Learned)

    def _own(self, every: Samples, index: Tensor, name: str) -> Samples:
        """The samples that this rank measures by; every rank has some of all classes."""
        rank, world = distributed.ranks() if self.divides else (0, 1)
        if len(index) < world:
            raise ValueError(f"the {name} part of {len(index)} samples cannot be divided over {world} ranks")
        return replace(self._mapped(every.subset(index[rank::world])), divided=world > 1)

    def _own_training(self, every: Samples, index: Tensor) -> Samples:
        """The samples that this rank learns from."""
        at = distributed.place(every.candidates.counts[index]) if self.divides else None
        if at is None:
            return self._mapped(every.subset(index))
        own = self._mapped(every.subset(index[at.samples[at.rank] : at.samples[at.rank + 1]]))
        own.candidates.shard = at
        return replace(own, divided=True)

    def _mapped(self, samples: Samples) -> Samples:
        return samples if self.kernel_map is None else replace(samples, candidates=self.kernel_map(samples.candidates))

    @property
    def learns_prior(self) -> bool:
        """Whether the candidates depend on which images train: through a prior that learns from them, or adds boxes or columns."""
        return self.prior is not None and not (self.prior.fixed and self.prior_columns == 0)

    def of_images(self, train: Tensor) -> Samples:
        """All images, with candidates from the cache where it has them. A prior that is not fixed is fitted on the images `train`, and its
        boxes are added."""
        images, prior, began = self.images, self.prior, time.perf_counter()
        parts = (images, self.proposals, self.features, self.cache_dir, self.progress)
        candidates, added = build_candidates(*parts, None if self.learns_prior else prior), None
        if prior is not None and self.learns_prior:
            prior.fit(TrainingImages(images, train.tolist(), self.progress))
            proposed = candidates.counts
            candidates = with_prior(images, candidates, self.features, prior, self.prior_columns, self.progress)
            added = candidates.counts - proposed
        log.info("proposals: %.1f boxes per image%s", candidates.n_candidates / len(candidates), self._reach(candidates))
        seconds = (time.perf_counter() - began) / len(candidates)
        log.info("candidates took %.2f s per image; peak memory so far %.1f GB", seconds, peak_memory() / 1e9)
        return Samples(images, candidates, images.labels, _true_h(images, candidates), added=added)

    def _reach(self, candidates: Candidates) -> str:
        """How many of the true boxes the candidates find, where they are known; a warning where candidates are too few or too small."""
        truth, remedy = self.images.truth, "use proposals=selective_search, or windows of the objects' sizes"
        if truth is not None and bool((~truth.difficult).any()):
            recall = metrics.box_recall(candidates, truth)
            if recall < LEAST_RECALL:
                log.warning(
                    "proposals find only %.1f %% of the ground-truth boxes, and the others cannot be predicted: %s", 100 * recall, remedy
                )
            return f", {100 * recall:.1f} % of the ground-truth boxes found at IoU 0.5"
        share = largest_share(self.images, candidates)
        if share < LEAST_SHARE:
            reason = "of its image (median), so that larger objects cannot be found"
            log.warning("the largest proposal covers %.1f %% %s: %s", 100 * share, reason, remedy)
        return ""

    def train_dataloader(self) -> DataLoader:
        """Indices into the training samples of all ranks: those of a mini-batch, or all of them."""
        assert self.train is not None
        index = torch.arange(distributed.n_samples(self.train.candidates))
        if self.batch_size is None:
            return DataLoader([index], batch_size=None)  # type: ignore[arg-type]
        batches = ShuffledBatches(len(index), self.batch_size)
        return DataLoader(index, batch_sampler=batches, collate_fn=torch.stack)  # type: ignore[arg-type]

    def val_dataloader(self) -> list[DataLoader]:
        """The whole validation part as one batch of indices; nothing where there is none."""
        return [] if self.val is None else [DataLoader([torch.arange(len(self.val))], batch_size=None)]  # type: ignore[arg-type]

    def test_dataloader(self) -> DataLoader:
        """The whole test part as one batch of indices."""
        assert self.test is not None
        return DataLoader([torch.arange(len(self.test))], batch_size=None)  # type: ignore[arg-type]


def checked_strengths(strength: float | Sequence[float] | str) -> tuple[float, ...]:
    """The strengths of the prior to choose from.

    >>> checked_strengths(2), checked_strengths("validation")
    ((2.0,), (0.0, 0.3, 1.0, 3.0))
    """
    given = STRENGTHS if strength == "validation" else [strength] if isinstance(strength, int | float) else strength
    numbers = [value for value in given if isinstance(value, int | float) and 0 <= value < math.inf]
    if isinstance(given, str) or len(given) == 0 or len(numbers) < len(given):
        raise ValueError(f"prior_strength must be a number of at least 0, a list of such numbers, or validation, but it is {strength!r}")
    return tuple(map(float, numbers))


def _true_h(images: ImageSet, candidates: Candidates) -> Tensor | None:
    """(n,) the candidate nearest to the true box of each image that shows one object, −1 where that is unknown."""
    known = images.boxed.nonzero().flatten()
    if not images.one_class or len(known) == 0 or (boxes := images.subset(known).boxes) is None:
        return None
    assert candidates.boxes is not None
    placed = Candidates(torch.zeros(len(candidates.boxes), 1), candidates.counts, candidates.boxes).subset(known)  # without features
    return torch.full((len(images),), -1).index_put((known,), true_candidate(placed, boxes)[0])


def peak_memory() -> int:
    """The most memory that this process has had, in bytes.

    >>> peak_memory() > 1e6
    True
    """
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most  # Linux counts in kilobytes


def largest_share(images: ImageSet, candidates: Candidates) -> float:
    """The share of its image that the largest candidate covers, the median over the images.

    >>> import numpy as np
    >>> c = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [0, 0, 4, 2]])
    >>> largest_share(ImageSet([np.zeros((4, 4), np.uint8)], ["cat"]), c)
    0.5
    """
    assert candidates.boxes is not None
    area = segment_max(box_area(candidates.boxes), candidates.counts)
    whole = torch.tensor([math.prod(images.size(i)) for i in range(len(images))], dtype=area.dtype)
    return float((area / whole).median())
