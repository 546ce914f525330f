"""From images to candidates: proposals, features, and the cache on disk."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc import distributed
from lvmdc.arrays import check_finite
from lvmdc.boxes import checked_boxes
from lvmdc.candidates import Candidates
from lvmdc.priors.base import Prior
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.cache import cache_key, cache_path, cached, make_in_shards
from lvmdc.vision.proposals.base import Proposals

log = logging.getLogger(__name__)


def build_candidates(
    images: ImageSet,
    proposals: Proposals,
    features: Features,
    cache_dir: str | Path | None = None,
    progress: bool = True,
    prior: Prior | None = None,
) -> Candidates:
    """The candidates of every image: the boxes of `proposals`, described by `features`, weighted before learning by `prior`.

    With `cache_dir` the result is kept there, in the npz layout of `Candidates.save`, under a hash of the images' contents and all
    settings: it is read again only for the same inputs. A damaged cache file is named in a warning and replaced. The work is saved in
    shards of a few images: a killed job loses one shard, and results larger than memory are never in it as a whole. Over the ranks of
    torch.distributed each makes some of the shards, and all ranks must share the cache; without a cache each makes all, in memory.

    >>> from lvmdc.vision.datasets import cluttered_digits
    >>> from lvmdc.vision.features import HOG
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> build_candidates(cluttered_digits(per_class=1), WindowGrid(), HOG(), progress=False)
    Candidates(6 samples, 150 candidates of 324 features, boxes, torch.float32, cpu)
    """
    describe, n = _Describer(images, proposals, features, prior), len(images)
    if cache_dir is None:
        return describe(tqdm(range(n), desc="candidates", unit="image", disable=not progress))
    _check_writable(Path(cache_dir))
    path = cache_path(cache_dir, cache_key(images, proposals, features, prior))
    found = cached(path, n) if distributed.ranks()[0] == 0 else None
    if distributed.from_first_rank(found is not None):
        log.info("read the candidates from the cache %s", path)
        return Candidates.load(path) if found is None else found
    made = make_in_shards(path, n, describe, progress)
    log.info("kept the candidates in the cache %s", path)
    return made


def _check_writable(directory: Path) -> None:
    """Refuse a folder that cannot take the result, before hours of work."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"cache_dir must be a folder, but {directory} is a file")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"cache_dir must be a folder that can be written to, but {directory} cannot")


class _Describer:
    """Makes candidates of images, all with features of one length; bad boxes, features and weights are refused with the image's name."""

    def __init__(self, images: ImageSet, proposals: Proposals, features: Features, prior: Prior | None):
        self.images, self.proposals, self.features, self.prior = images, proposals, features, prior
        self._length: int | None = None

    def __call__(self, which: Iterable[int]) -> Candidates:
        """The candidates of some images, in that order."""
        described, placed, counts, weights = _Rows(), _Rows(), [], []
        for i in which:
            boxes, numbers, likely = self._one(i)
            described.append(numbers)
            placed.append(boxes)
            counts.append(len(boxes))
            weights += [] if likely is None else [likely]
        return Candidates(described.all(), counts, placed.all(), prior=torch.cat(weights) if weights else None)

    def _one(self, i: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """(m, 4), (m, d), (m,): the boxes of an image, their features and log weights."""
        image, name = self.images.image(i), self.images.names[i]
        boxes = self.proposals.boxes(image, name)
        if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) == 0:
            raise ValueError(f"{self.proposals!r} must give {name} boxes of shape (m, 4) with m ≥ 1, but gave shape {tuple(boxes.shape)}")
        numbers = self.features.describe_named(image, name, boxes)
        self._length = self._length or numbers.shape[-1]
        expected = (len(boxes), self._length)
        if numbers.shape != expected:
            raise ValueError(f"{self.features!r} must give {name} features of shape {expected}, but gave shape {tuple(numbers.shape)}")
        try:
            checked_boxes(boxes, len(boxes))
            check_finite("features", numbers)
            return boxes, numbers, None if self.prior is None else self.prior(image, boxes)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


class _Rows:
    """Rows in one growing array. Joined from a list at the end they would be in memory twice; here at most a quarter is spare."""

    def __init__(self) -> None:
        self._used, self._held = 0, np.empty((0, 0), np.float32)

    def append(self, rows: Tensor) -> None:
        if self._used == 0:
            self._held = np.empty(rows.shape, rows.numpy(force=True).dtype)
        end, (room, length) = self._used + len(rows), self._held.shape
        if end > room:
            # Grows in place where the system can move pages rather than copy them; nothing else refers to the array.
            self._held.resize((max(end, room * 5 // 4), length), refcheck=False)
        self._held[self._used : end] = rows.numpy(force=True)
        self._used = end

    def all(self) -> Tensor:
        """Everything, once: the array is handed over."""
        self._held.resize((self._used, self._held.shape[1]), refcheck=False)
        return torch.from_numpy(self._held)
