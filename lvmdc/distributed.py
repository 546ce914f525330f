"""Which samples a rank of torch.distributed holds: consecutive ones, with about as many candidates on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_reduce

from lvmdc.arrays import ArrayLike, as_tensor, checked_counts
from lvmdc.candidates import Candidates
from lvmdc.storage import arrays as storage

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


# One training set over the ranks of torch.distributed: every rank holds some of the samples, and sums over samples travel.
#
# All that exact learning knows of the samples of other ranks are such sums: the cut and its loss, the slope along a line, the terms of the
# objective, the gradient in θ. Every rank then takes the same decision from the same numbers. On a set that was not divided each function
# here is what it would be without ranks, and needs no process group.

__all__ = [
    "Shard", "divide", "first_row", "gather", "highest", "load_shard", "mean", "n_candidates", "n_samples", "own", "place", "ranks",
    "row_mean", "shard", "stack", "told_by_first", "total",
]  # fmt: skip

# ---- sums over the samples of all ranks ------------------------------------------------------------------------------


def n_samples(candidates: Candidates) -> int:
    """n of the whole set.

    >>> n_samples(Candidates(torch.eye(3), [2, 1]))
    2
    """
    return len(candidates) if candidates.shard is None else candidates.shard.samples[-1]


def n_candidates(candidates: Candidates) -> int:
    """T of the whole set.

    >>> n_candidates(Candidates(torch.eye(3), [2, 1]))
    3
    """
    return candidates.n_candidates if candidates.shard is None else candidates.shard.candidates[-1]


def total(candidates: Candidates, values: Tensor) -> Tensor:
    """The sum of what each rank has, on every rank.

    >>> total(Candidates(torch.eye(3), [2, 1]), torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if candidates.shard is None:
        return values
    found = values.detach().to(candidates.device, copy=True)  # where ranks can send it from
    dist.all_reduce(found, group=candidates.shard.group)
    return found.to(values.device)


def mean(candidates: Candidates, values: Tensor, dim: int = 0) -> Tensor:
    """The mean over all samples, along the axis of values that is theirs, in float64.

    >>> mean(Candidates(torch.eye(3), [2, 1]), torch.tensor([1.0, 2.0]))
    tensor(1.5000, dtype=torch.float64)
    """
    if candidates.shard is None:
        return values.double().mean(dim=dim)
    return total(candidates, values.double().sum(dim=dim)) / n_samples(candidates)


def highest(candidates: Candidates, value: float) -> float:
    """The greatest of a number that each rank has.

    >>> highest(Candidates(torch.eye(3), [2, 1]), 2.0)
    2.0
    """
    if candidates.shard is None:
        return value
    found = torch.tensor(value, dtype=torch.float64, device=candidates.device)
    dist.all_reduce(found, dist.ReduceOp.MAX, group=candidates.shard.group)
    return float(found)


def row_mean(values: Tensor) -> Tensor:
    """The mean of the values (m,) of all ranks, which all call it; differentiable, also in those of the others.

    >>> row_mean(torch.tensor([1.0, 2.0]))
    tensor(1.5000)
    """
    if ranks()[1] == 1:
        return values.mean()
    found = all_reduce(torch.stack([values.sum(), values.new_tensor(float(len(values)))]))
    return found[0] / found[1]


def told_by_first(value: Any) -> Any:
    """What the first rank says, on every rank; all of them wait for all.

    >>> told_by_first(3)
    3
    """
    if ranks()[1] == 1:
        return value
    dist.barrier()
    said = [value]
    dist.broadcast_object_list(said)
    return said[0]


# ---- what belongs to samples or candidates, whole and in parts -------------------------------------------------------


def gather(candidates: Candidates, values: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """What each rank has of its samples or candidates, along `dim`, put together in the order of the whole set.

    >>> gather(Candidates(torch.eye(3), [2, 1]), torch.tensor([4, 5]), "samples")
    tensor([4, 5])
    """
    if candidates.shard is None:
        return values
    sizes, values = candidates.shard.sizes(axis), values.movedim(dim, 0).contiguous()
    padded = values.new_zeros(max(sizes), *values.shape[1:])  # ranks must send alike
    padded[: len(values)] = values
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded, group=candidates.shard.group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).movedim(0, dim)


def stack(candidates: Candidates, rows: Tensor) -> tuple[Tensor, int]:
    """Rows of which each rank has any number, one rank's after the other's, and where those of this rank begin.

    >>> stack(Candidates(torch.eye(3), [2, 1]), torch.tensor([4, 5]))
    (tensor([4, 5]), 0)
    """
    if candidates.shard is None:
        return rows, 0
    at = candidates.shard
    sizes = rows.new_zeros(len(at.samples) - 1, dtype=torch.int64)
    sizes[at.rank] = len(rows)
    sizes = total(candidates, sizes)
    first = int(sizes[: at.rank].sum())
    whole = rows.new_zeros(int(sizes.sum()), *rows.shape[1:])
    whole[first : first + len(rows)] = rows
    return total(candidates, whole), first


def own(candidates: Candidates, values: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """The inverse of `gather`: what this rank has of the whole.

    >>> own(Candidates(torch.eye(3), [2, 1]), torch.tensor([4, 5]), "samples")
    tensor([4, 5])
    """
    if candidates.shard is None:
        return values
    at = candidates.shard
    return values.narrow(dim, at.first(axis), at.sizes(axis)[at.rank])


def first_row(candidates: Candidates) -> int:
    """Where in the whole set the packed rows of this rank begin.

    >>> first_row(Candidates(torch.eye(3), [2, 1]))
    0
    """
    return 0 if candidates.shard is None else candidates.shard.first("candidates")
