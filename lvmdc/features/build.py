"""From pictures to candidates: proposals, features, and the cache on disk."""

import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.data.sources import Sources
from lvmdc.features.base import Features
from lvmdc.features.cache import cache_key, cache_path
from lvmdc.proposals.base import Proposals
from lvmdc.storage import load_arrays, save_joined

log = logging.getLogger(__name__)


def build_candidates(
    pictures: Sources,
    proposals: Proposals,
    features: Features,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> Candidates:
    """The candidates of every picture: where `proposals` says, looking as `features` says.

    With `cache_dir` the result is kept there, in the npz layout of `Candidates.save`, under a hash of the pictures' contents
    and all settings: it is read again only for the same inputs. A cache file that is damaged is named in a warning and made anew.
    Over the ranks of torch.distributed each makes its part of the pictures, and they meet in the cache, which all of them must share;
    without a cache each makes all.

    >>> from lvmdc.data import cluttered_digits
    >>> from lvmdc.features import HOG
    >>> from lvmdc.proposals import WindowGrid
    >>> build_candidates(cluttered_digits(per_class=1), WindowGrid(), HOG(), progress=False)
    Candidates(6 samples, 150 candidates of 324 features, boxes, torch.float32, cpu)
    """
    if cache_dir is None:
        return _computed(pictures, proposals, features, progress)
    _check_writable(Path(cache_dir))
    path = cache_path(cache_dir, cache_key(pictures, proposals, features))
    return _from_cache(path, len(pictures), lambda: _over_ranks(path, pictures, proposals, features, progress))


def _from_cache(path: Path, n: int, make: Callable[[], Candidates]) -> Candidates:
    """What the first rank finds in the cache, or what all of them make."""
    cached = _cached(path, n) if distributed.ranks()[0] == 0 else None
    if distributed.told_by_first(cached is not None):
        log.info("read the candidates from the cache %s", path)
        return Candidates.load(path) if cached is None else cached
    made = make()
    log.info("kept the candidates in the cache %s", path)
    return made


def _over_ranks(path: Path, pictures: Sources, proposals: Proposals, features: Features, progress: bool) -> Candidates:
    """Each rank makes a file of some of the pictures, the first joins them, and all read that. A part outlives a job that was killed."""
    rank, world = distributed.ranks()
    if world == 1:
        candidates = _computed(pictures, proposals, features, progress)
        candidates.save(path)
        return candidates
    bounds = [len(pictures) * r // world for r in range(world + 1)]
    parts = [path.with_name(f"{path.stem}-{a}-{b}.npz") for a, b in pairwise(bounds) if a < b]
    own = range(bounds[rank], bounds[rank + 1])
    mine = path.with_name(f"{path.stem}-{own.start}-{own.stop}.npz")
    if len(own) and _cached(mine, len(own)) is None:
        _computed(pictures, proposals, features, progress and rank == 0, own).save(mine)
    distributed.told_by_first(None)  # which all ranks wait for
    if rank == 0:
        missing = [part for part in parts if not part.exists()]
        if missing:
            raise FileNotFoundError(f"{missing[0]}, made by another rank, is not here: cache_dir must be a folder that all ranks share")
        save_joined(path, [load_arrays(part, ("features", "counts", "boxes")) for part in parts])
    distributed.told_by_first(None)
    candidates = Candidates.load(path)
    if rank == 0:
        for part in parts:
            part.unlink()
    return candidates


def _check_writable(directory: Path) -> None:
    """Refuse a folder that cannot take the result, before hours are spent on it."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"cache_dir must be a folder, but {directory} is a file")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"cache_dir must be a folder that can be written to, but {directory} cannot")


def _cached(path: Path, n: int) -> Candidates | None:
    if not path.exists():
        return None
    try:
        candidates = Candidates.load(path)
        if len(candidates) != n or candidates.boxes is None:
            raise ValueError(f"{path} holds {len(candidates)} samples instead of {n}, or no boxes")
        return candidates
    except Exception as error:  # whatever it is, the file can be made again
        log.warning("the cache file %s is damaged and is made anew: %s", path, error)
        return None


def _computed(pictures: Sources, proposals: Proposals, features: Features, progress: bool, own: range | None = None) -> Candidates:
    """The candidates of all pictures, or of those in `own`."""
    described, placed, counts = _Rows(), _Rows(), []
    for i in tqdm(range(len(pictures)) if own is None else own, desc="candidates", unit="picture", disable=not progress):
        image, name = pictures.image(i), pictures.names[i]
        boxes = proposals.boxes(image, name)
        if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) == 0:
            raise ValueError(f"{proposals!r} must give {name} boxes of shape (m, 4) with m ≥ 1, but gave shape {tuple(boxes.shape)}")
        numbers = features.describe_named(image, name, boxes)
        expected = (len(boxes), described.length or numbers.shape[-1])
        if numbers.shape != expected:
            raise ValueError(f"{features!r} must give {name} features of shape {expected}, but gave shape {tuple(numbers.shape)}")
        described.append(numbers)
        placed.append(boxes)
        counts.append(len(boxes))
    return Candidates(described.all(), counts, placed.all())


class _Rows:
    """Rows that come bit by bit. Joined from a list at the end they would stand in memory twice; here a quarter is spare at most."""

    def __init__(self) -> None:
        self.length, self._used, self._held = 0, 0, np.empty((0, 0), np.float32)

    def append(self, rows: Tensor) -> None:
        if self.length == 0:
            self.length, self._held = rows.shape[1], np.empty(rows.shape, rows.numpy(force=True).dtype)
        end = self._used + len(rows)
        if end > len(self._held):
            # Grows in place where the system can move pages rather than copy them; nothing else refers to the array.
            self._held.resize((max(end, len(self._held) * 5 // 4), self.length), refcheck=False)
        self._held[self._used : end] = rows.numpy(force=True)
        self._used = end

    def all(self) -> Tensor:
        """Everything, once: the array is handed over."""
        self._held.resize((self._used, self.length), refcheck=False)
        return torch.from_numpy(self._held)
