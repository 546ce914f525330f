"""Candidates piece by piece: what a long extraction has done outlives it, and only a piece is in memory at a time.

A piece is some pictures that follow each other, the same ones however many ranks there are, so that one that is in the cache already is
taken from there, whoever made it.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.features.cache import cached
from lvmdc.storage import Stored, save_joined

LARGEST = 64  # pictures of a piece, at most
FEWEST = 64  # pieces of a set with as many pictures, at least: many ranks shall have work
DEAD = 3600  # seconds after which a temporary file that nobody wrote to is taken for that of a killed job


@dataclass(frozen=True)
class Piece:
    """Some pictures, and the file of their candidates."""

    path: Path
    which: range


def pieces_of(path: Path, n: int) -> list[Piece]:
    """The pieces of the n pictures whose candidates will lie at `path`.

    >>> [(piece.path.name, piece.which) for piece in pieces_of(Path("a.npz"), 129)][-2:]
    [('a-126-128.npz', range(126, 128)), ('a-128-129.npz', range(128, 129))]
    """
    size = min(LARGEST, max(1, n // FEWEST))
    bounds = [(first, min(first + size, n)) for first in range(0, n, size)]
    return [Piece(path.with_name(f"{path.stem}-{a}-{b}.npz"), range(a, b)) for a, b in bounds]


def make_in_pieces(path: Path, n: int, describe: Callable[[Iterable[int]], Candidates], progress: bool) -> Candidates:
    """The candidates of n pictures, kept at `path`: ranks make pieces in turn, the first rank joins them, and all read that.

    Jobs that make the same at the same time use each other's pieces, and the whole of the first that is ready.
    """
    rank, world = distributed.ranks()
    pieces = pieces_of(path, n)
    own = pieces[rank::world]
    found = {piece for piece in own if cached(piece.path, len(piece.which)) is not None}
    pictures, before = (sum(len(piece.which) for piece in some) for some in (own, found))
    shown = progress and rank == 0
    with tqdm(total=pictures, initial=before, desc="candidates", unit="picture", disable=not shown) as bar:
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
