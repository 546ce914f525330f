"""Which samples a rank of torch.distributed holds: consecutive ones, with about as many candidates on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from lvmdc import storage
from lvmdc.arrays import checked_counts
from lvmdc.candidates import ArrayLike, Candidates, as_tensor

Axis = Literal["samples", "candidates"]


@dataclass(frozen=True)
class Shard:
    """Which samples and packed rows of the whole set a rank holds: those from `samples[rank]`, `candidates[rank]` up to the next entry.

    >>> Shard((0, 2, 3), (0, 5, 9), rank=1).first("candidates")
    5
    """

    samples: tuple[int, ...]
    candidates: tuple[int, ...]
    rank: int
    group: Any = None

    def first(self, axis: Axis) -> int:
        """The first sample, or packed row, of this rank."""
        return getattr(self, axis)[self.rank]

    def sizes(self, axis: Axis) -> list[int]:
        """How many each rank has."""
        return [b - a for a, b in pairwise(getattr(self, axis))]


def shard(candidates: Candidates, *of_samples: ArrayLike | None, group: Any = None) -> tuple[Any, ...]:
    """The part of a set that this rank learns from, and of arrays (n,) that go with it: y, h, h_init, or None.

    Consecutive samples, with about as many candidates on every rank; mapped features stay mapped. Every rank calls it with the same set:
    under `torchrun`, after `torch.distributed.init_process_group`. Without a process group, or on one rank, the set is returned whole.

    >>> whole = Candidates(torch.eye(3), [2, 1])
    >>> part, y = shard(whole, [1, 0])
    >>> part is whole, y
    (True, tensor([1, 0]))
    """
    arrays = [None if values is None else as_tensor(values) for values in of_samples]
    at = place(candidates.counts, group)
    if at is None:
        return candidates, *arrays
    one, two = at.samples[at.rank], at.samples[at.rank + 1]
    return candidates.part(one, two, at), *_of_rank(at, arrays)


def load_shard(path: str | Path, *of_samples: ArrayLike | None, group: Any = None, mmap: bool | None = None) -> tuple[Any, ...]:
    """`shard` of what `Candidates.save` wrote. Features of the other ranks are neither checked nor read, unless they were compressed;
    `Candidates.load` goes through all of them once. The first rank verifies the checksum for all."""
    if ranks(group)[1] == 1:
        return shard(Candidates.load(path, mmap), *of_samples)
    _verify_once(path, group)
    optional = ("boxes", "phi", "prior")
    arrays = storage.load_arrays(path, required=("features", "counts"), optional=optional, mmap=mmap, verify=False)
    counts, where = arrays.pop("counts"), str(path)
    try:
        for name, values in arrays.items():
            if len(values) != len(arrays["features"]):
                raise ValueError(f"{name} must have {len(arrays['features'])} rows, as features has, but it has {len(values)}")
        at = place(checked_counts(counts, len(arrays["features"])), group)
        assert at is not None
        one, two, first, last = (bounds[at.rank + i] for bounds in (at.samples, at.candidates) for i in (0, 1))
        where = f"{path}, rows {first} to {last - 1}, those of rank {at.rank}"
        own = Candidates(counts=counts[one:two], **{name: values[first:last] for name, values in arrays.items()})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
    own.shard = at
    return own, *_of_rank(at, [None if values is None else as_tensor(values) for values in of_samples])


def _verify_once(path: str | Path, group: Any) -> None:
    """Let the first rank read the whole file; all of them refuse it if it is damaged."""
    wrong: list[str | None] = [None]
    if ranks(group)[0] == 0:
        try:
            storage.verify_checksum(path)
        except (OSError, ValueError) as error:
            wrong = [str(error)]
    dist.broadcast_object_list(wrong, src=0 if group is None else dist.get_global_rank(group, 0), group=group)
    if wrong[0] is not None:
        raise ValueError(wrong[0])


def _of_rank(at: Shard, arrays: list[Tensor | None]) -> list[Tensor | None]:
    n = at.samples[-1]
    for values in arrays:
        if values is not None and len(values) != n:
            raise ValueError(f"shard needs arrays of {n} values, one a sample, but one has {len(values)}")
    return [None if values is None else values[at.samples[at.rank] : at.samples[at.rank + 1]] for values in arrays]


def ranks(group: Any = None) -> tuple[int, int]:
    """Which rank this process is, and of how many: (0, 1) without a process group.

    >>> ranks()
    (0, 1)
    """
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)


def place(counts: Tensor, group: Any = None) -> Shard | None:
    """What `shard` gives this rank of samples with `counts` (n,) candidates; None where there is but one rank.

    >>> place(torch.tensor([2, 1])) is None
    True
    """
    rank, world = ranks(group)
    return None if world == 1 else Shard(*divide(counts, world), rank, group)


def divide(counts: Tensor, parts: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bounds of samples and of packed rows that divide samples of `counts` (n,) candidates evenly, at least one sample a part.

    >>> divide(torch.tensor([5, 1, 1, 1, 4]), 2)
    ((0, 2, 5), (0, 6, 12))
    """
    n = len(counts)
    if n < parts:
        raise ValueError(f"{n} samples cannot be divided over {parts} ranks, each of which needs at least one")
    ends = counts.cumsum(0).cpu()
    wanted = ends[-1] * torch.arange(1, parts) / parts
    cuts = (torch.searchsorted(ends, wanted.long()) + 1).tolist()
    bounds = [0]
    for r, cut in enumerate(cuts, start=1):
        bounds.append(min(max(cut, bounds[-1] + 1), n - (parts - r)))
    bounds.append(n)
    return tuple(bounds), (0, *(int(ends[b - 1]) for b in bounds[1:]))
