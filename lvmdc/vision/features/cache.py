"""Computed candidates on disk: a key that belongs to their inputs, and shards, from which an interrupted extraction resumes."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.priors.base import Prior
from lvmdc.storage.arrays import Stored, save_joined
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.base import Features
from lvmdc.vision.proposals.base import Proposals

log = logging.getLogger(__name__)
FORMAT = 1  # raise it when the same inputs give other numbers, so that old caches are not used
DIGITS = 16  # of a key in the name of its file: 64 bits, enough for any number of files
LARGEST = 64  # images of a shard, at most
FEWEST = 64  # shards of a set with at least as many images: enough for many ranks
DEAD = 3600  # seconds without a write after which a temporary file belongs to a killed job


def cache_key(images: ImageSet, proposals: Proposals, features: Features, prior: Prior | None = None) -> str:
    """SHA-256 of everything that the candidates depend on: the images' contents, names and order, and the settings.

    Labels and true boxes are not part of it: candidates do not depend on them.

    >>> import numpy as np
    >>> from lvmdc.vision.features.hog import HOG
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> images = ImageSet([np.zeros((64, 64), np.uint8)], ["cat"])
    >>> cache_key(images, WindowGrid(), HOG()) == cache_key(images, WindowGrid(stride=4), HOG())
    False
    """
    parts: dict[str, Any] = {"proposals": proposals, "features": features} | ({} if prior is None else {"prior": prior})
    key = hashlib.sha256()
    key.update(_canonical({"format": FORMAT} | {name: _described(part) for name, part in parts.items()}))
    for i, name in enumerate(images.names):
        key.update(_canonical([name, images.digest(i)]))
    return key.hexdigest()


def cache_path(cache_dir: str | Path, key: str) -> Path:
    """The file of the candidates of a key, of which it has the beginning.

    >>> cache_path("cache", "0123456789abcdef" * 4).as_posix()
    'cache/candidates-0123456789abcdef.npz'
    """
    return Path(cache_dir) / f"candidates-{key[:DIGITS]}.npz"


def cached(path: Path, n: int) -> Candidates | None:
    """The candidates of n images that a file holds; None if there is no such file. A damaged one is named in a warning and removed."""
    if not path.exists():
        return None
    try:
        candidates = Candidates.load(path)
        if len(candidates) != n or candidates.boxes is None:
            raise ValueError(f"{path} holds {len(candidates)} samples instead of {n}, or no boxes")
        return candidates
    except Exception as error:  # whatever it is, the file can be made again
        log.warning("the cache file %s is damaged and is made again: %s", path, error)
        path.unlink(missing_ok=True)
        return None


def _described(part: Proposals | Features | Prior) -> dict[str, Any]:
    return {"kind": f"{type(part).__module__}.{type(part).__qualname__}", "settings": part.settings()}


def _canonical(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True).encode() + b"\n"
    except TypeError as error:
        raise TypeError(f"settings() must return plain values that JSON can write: {error}") from None


def shards_of(path: Path, n: int) -> dict[Path, range]:
    """The shards of the n images whose candidates will be at `path`: consecutive images, the same whatever the number of ranks.

    >>> [(shard.name, which) for shard, which in shards_of(Path("a.npz"), 129).items()][-2:]
    [('a-126-128.npz', range(126, 128)), ('a-128-129.npz', range(128, 129))]
    """
    size = min(LARGEST, max(1, n // FEWEST))
    every = [range(first, min(first + size, n)) for first in range(0, n, size)]
    return {path.with_name(f"{path.stem}-{which.start}-{which.stop}.npz"): which for which in every}


def make_in_shards(path: Path, n: int, describe: Callable[[Iterable[int]], Candidates], progress: bool) -> Candidates:
    """The candidates of n images, kept at `path`: ranks make shards in turn, the first rank joins them, and all read the result.

    Jobs that make the same candidates at the same time use each other's shards, and the first whole result.
    """
    rank, world = distributed.ranks()
    shards = shards_of(path, n)
    own = dict(list(shards.items())[rank::world])
    missing = {shard: which for shard, which in own.items() if cached(shard, len(which)) is None}
    total, left = (sum(map(len, some.values())) for some in (own, missing))
    with tqdm(total=total, initial=total - left, desc="candidates", unit="image", disable=not progress or rank > 0) as bar:
        for shard, which in missing.items():
            if shard.exists() or path.exists():  # another job made it in the meantime
                bar.update(len(which))
            else:
                describe(_counted(which, bar)).save(shard)
    distributed.from_first_rank(None)  # waits for all ranks
    if rank == 0:
        _join(path, list(shards))
    distributed.from_first_rank(None)
    candidates = Candidates.load(path)
    if rank == 0:
        _tidy(path)
    return candidates


def _counted(which: range, bar: tqdm) -> Iterable[int]:
    for i in which:
        yield i
        bar.update()


def _join(path: Path, shards: list[Path]) -> None:
    """One file of all shards, unless another job made it first and removed the shards."""
    try:
        if path.exists():
            return
        if len(shards) == 1:
            os.replace(shards[0], path)
        else:
            names = ("features", "counts", "boxes") + (() if Candidates.load(shards[0]).prior is None else ("prior",))
            save_joined(path, [Stored(shard, names) for shard in shards])
    except (FileNotFoundError, ValueError):
        missing = [shard for shard in shards if not shard.exists()]
        if path.exists():
            return
        if missing:
            message = f"{missing[0]} was written but is gone: cache_dir must be a folder that all ranks share and that is not cleared"
            raise FileNotFoundError(message) from None
        raise


def _tidy(path: Path) -> None:
    """Remove the shards, those of other sizes from killed jobs too, and the temporary files of such jobs."""
    for shard in path.parent.glob(f"{path.stem}-*-*.npz"):
        shard.unlink(missing_ok=True)
    for temporary in path.parent.glob(f".{path.stem}*.tmp"):
        try:
            if time.time() - temporary.stat().st_mtime > DEAD:
                temporary.unlink()
        except FileNotFoundError:  # it was renamed, or another job was faster
            pass
