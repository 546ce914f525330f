"""Computed candidates on disk: the key under which they are kept, which belongs to their inputs, and reading them again."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
FORMAT = 1  # raise it when the same inputs give other numbers, and old caches are left alone


def cache_key(images: ImageSet, proposals: Proposals, features: Features, prior: Prior | None = None) -> str:
    """SHA-256 of everything that the candidates depend on: the images' contents, names and order, and the settings.

    Labels and true boxes are not among it: candidates do not depend on them.

    >>> import numpy as np
    >>> from lvmdc.vision.features.hog import HOG
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> images = ImageSet([np.zeros((64, 64), np.uint8)], ["cat"])
    >>> cache_key(images, WindowGrid(), HOG()) == cache_key(images, WindowGrid(stride=4), HOG())
    False
    """
    key = hashlib.sha256()
    parts = {"format": FORMAT, "proposals": _described(proposals), "features": _described(features)}
    key.update(_canonical(parts if prior is None else parts | {"prior": _described(prior)}))
    for i, name in enumerate(images.names):
        key.update(_canonical([name, images.digest(i)]))
    return key.hexdigest()


def cache_path(cache_dir: str | Path, key: str) -> Path:
    """Where the candidates of a key lie.

    >>> cache_path("cache", "ab12").as_posix()
    'cache/candidates-ab12.npz'
    """
    return Path(cache_dir) / f"candidates-{key}.npz"


def cached(path: Path, n: int) -> Candidates | None:
    """The candidates of n images that a file has; None if there is no such file. One that is damaged is named in a warning and removed.

    >>> cached(Path("nowhere.npz"), 1) is None
    True
    """
    if not path.exists():
        return None
    try:
        candidates = Candidates.load(path)
        if len(candidates) != n or candidates.boxes is None:
            raise ValueError(f"{path} holds {len(candidates)} samples instead of {n}, or no boxes")
        return candidates
    except Exception as error:  # whatever it is, the file can be made again
        log.warning("the cache file %s is damaged and is made anew: %s", path, error)
        path.unlink(missing_ok=True)
        return None


def _described(part: Proposals | Features | Prior) -> dict[str, Any]:
    return {"kind": f"{type(part).__module__}.{type(part).__qualname__}", "settings": part.settings()}


def _canonical(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True).encode() + b"\n"
    except TypeError as error:
        raise TypeError(f"settings() must return plain values that JSON can write: {error}") from None


# Candidates piece by piece: what a long extraction has done outlives it, and only a piece is in memory at a time.
#
# A piece is some images that follow each other, the same ones however many ranks there are, so that one that is in the cache already is
# taken from there, whoever made it.

LARGEST = 64  # images of a piece, at most
FEWEST = 64  # pieces of a set with as many images, at least: many ranks shall have work
DEAD = 3600  # seconds after which a temporary file that nobody wrote to is taken for that of a killed job


@dataclass(frozen=True)
class Piece:
    """Some images, and the file of their candidates."""

    path: Path
    which: range


def pieces_of(path: Path, n: int) -> list[Piece]:
    """The pieces of the n images whose candidates will lie at `path`.

    >>> [(piece.path.name, piece.which) for piece in pieces_of(Path("a.npz"), 129)][-2:]
    [('a-126-128.npz', range(126, 128)), ('a-128-129.npz', range(128, 129))]
    """
    size = min(LARGEST, max(1, n // FEWEST))
    bounds = [(first, min(first + size, n)) for first in range(0, n, size)]
    return [Piece(path.with_name(f"{path.stem}-{a}-{b}.npz"), range(a, b)) for a, b in bounds]


def make_in_pieces(path: Path, n: int, describe: Callable[[Iterable[int]], Candidates], progress: bool) -> Candidates:
    """The candidates of n images, kept at `path`: ranks make pieces in turn, the first rank joins them, and all read that.

    Jobs that make the same at the same time use each other's pieces, and the whole of the first that is ready.
    """
    rank, world = distributed.ranks()
    pieces = pieces_of(path, n)
    own = pieces[rank::world]
    found = {piece for piece in own if cached(piece.path, len(piece.which)) is not None}
    images, before = (sum(len(piece.which) for piece in some) for some in (own, found))
    shown = progress and rank == 0
    with tqdm(total=images, initial=before, desc="candidates", unit="image", disable=not shown) as bar:
        for piece in own:
            if piece in found:
                continue
            if piece.path.exists() or path.exists():  # another job made it meanwhile
                bar.update(len(piece.which))
            else:
                describe(_counted(piece.which, bar)).save(piece.path)
    distributed.told_by_first(None)  # which all ranks wait for
    if rank == 0:
        _join(path, pieces)
    distributed.told_by_first(None)
    candidates = Candidates.load(path)
    if rank == 0:
        _tidy(path)
    return candidates


def _counted(which: range, bar: tqdm) -> Iterable[int]:
    for i in which:
        yield i
        bar.update()


def _join(path: Path, pieces: list[Piece]) -> None:
    """One file of all pieces, unless another job had it ready first, and took the pieces away."""
    try:
        if path.exists():
            return
        if len(pieces) == 1:
            os.replace(pieces[0].path, path)
        else:
            held = Candidates.load(pieces[0].path)
            names = ("features", "counts", "boxes") + (() if held.prior is None else ("prior",))
            save_joined(path, [Stored(piece.path, names) for piece in pieces])
    except (FileNotFoundError, ValueError):
        missing = [piece.path for piece in pieces if not piece.path.exists()]
        if path.exists():
            return
        if missing:
            told = f"{missing[0]} was made and is not here: cache_dir must be a folder that all ranks share, and that nobody clears"
            raise FileNotFoundError(told) from None
        raise


def _tidy(path: Path) -> None:
    """Remove the pieces, those of killed jobs that were cut otherwise too, and what such jobs had not finished writing."""
    for piece in path.parent.glob(f"{path.stem}-*-*.npz"):
        piece.unlink(missing_ok=True)
    for temporary in path.parent.glob(f".{path.stem}*.tmp"):
        try:
            if time.time() - temporary.stat().st_mtime > DEAD:
                temporary.unlink()
        except FileNotFoundError:  # it took its place, or another job was quicker
            pass
