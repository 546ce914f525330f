"""One training set over the ranks of torch.distributed: every rank holds some of the samples, and sums over samples are exchanged.

All that exact learning needs of the samples of other ranks are such sums: the cut and its loss, the slope along a line, the terms of the
objective, the gradient in θ. Every rank then takes the same decision from the same numbers. On a set that is not divided the functions
need no process group.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor, checked_counts
from lvmdc.candidates import Candidates
from lvmdc.storage import arrays as storage

Axis = Literal["samples", "candidates"]


@dataclass(frozen=True)
class Shard:
    """The samples and packed rows of the whole set that a rank holds: from `samples[rank]`, `candidates[rank]` up to the next entry.

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
        """The number of each rank."""
        return [b - a for a, b in pairwise(getattr(self, axis))]


def shard(candidates: Candidates, *of_samples: ArrayLike | None, group: Any = None) -> tuple[Any, ...]:
    """The part of a set that this rank learns from, and of arrays (n,) that go with it: y, h, h_init, or None.

    Consecutive samples, with about equally many candidates on every rank; mapped features stay mapped. Every rank calls it with the same
    set: under `torchrun`, after `torch.distributed.init_process_group`. Without a process group, or on one rank, the set is returned whole.

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
    """`shard` of what `Candidates.save` wrote, without reading or checking the features of other ranks (unless they are compressed). The
    first rank verifies the checksum for all."""
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
    """The first rank reads the whole file; all refuse it if it is damaged."""
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
            raise ValueError(f"shard needs arrays of {n} values, one per sample, but one has {len(values)}")
    return [None if values is None else values[at.samples[at.rank] : at.samples[at.rank + 1]] for values in arrays]


def ranks(group: Any = None) -> tuple[int, int]:
    """The rank of this process and the number of ranks: (0, 1) without a process group."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)


def place(counts: Tensor, group: Any = None) -> Shard | None:
    """The `Shard` of this rank for samples with `counts` (n,) candidates; None if there is only one rank."""
    rank, world = ranks(group)
    return None if world == 1 else Shard(*divide(counts, world), rank, group)


def divide(counts: Tensor, parts: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bounds of samples and of packed rows that divide samples of `counts` (n,) candidates evenly, at least one sample per part.

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


# ---- sums over the samples of all ranks ------------------------------------------------------------------------------


def n_samples(candidates: Candidates) -> int:
    """n of the whole set."""
    return len(candidates) if candidates.shard is None else candidates.shard.samples[-1]


def n_candidates(candidates: Candidates) -> int:
    """T of the whole set."""
    return candidates.n_candidates if candidates.shard is None else candidates.shard.candidates[-1]


def total(candidates: Candidates, values: Tensor) -> Tensor:
    """The sum of the values of all ranks, on every rank."""
    if candidates.shard is None:
        return values
    found = values.detach().to(candidates.device, copy=True)  # the device that ranks send from
    dist.all_reduce(found, group=candidates.shard.group)
    return found.to(values.device)


def mean(candidates: Candidates, values: Tensor, dim: int = 0) -> Tensor:
    """The mean over all samples, which are axis `dim` of values, in float64."""
    if candidates.shard is None:
        return values.double().mean(dim=dim)
    return total(candidates, values.double().sum(dim=dim)) / n_samples(candidates)


def highest(candidates: Candidates, value: float) -> float:
    """The greatest value of all ranks."""
    if candidates.shard is None:
        return value
    found = torch.tensor(value, dtype=torch.float64, device=candidates.device)
    dist.all_reduce(found, dist.ReduceOp.MAX, group=candidates.shard.group)
    return float(found)


def row_mean(values: Tensor) -> Tensor:
    """The mean of the values (m,) of all ranks, which all call it; differentiable in the values of every rank."""
    if ranks()[1] == 1:
        return values.mean()
    found = _Sum.apply(torch.stack([values.sum(), values.new_tensor(float(len(values)))]))
    return found[0] / found[1]


class _Sum(torch.autograd.Function):
    """The sum over all ranks. Each of them uses it, so that the derivative is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        found = values.detach().clone()
        dist.all_reduce(found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Sum.apply(grads[0])


def from_first_rank(value: Any) -> Any:
    """The value of the first rank, on every rank; a barrier, too."""
    if ranks()[1] == 1:
        return value
    dist.barrier()
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


# ---- values of samples or candidates, whole and in parts -------------------------------------------------------


def gather(candidates: Candidates, values: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """Values of the samples or candidates of each rank, along `dim`, joined in the order of the whole set."""
    if candidates.shard is None:
        return values
    sizes, values = candidates.shard.sizes(axis), values.movedim(dim, 0).contiguous()
    padded = values.new_zeros(max(sizes), *values.shape[1:])  # ranks must send equal shapes
    padded[: len(values)] = values
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded, group=candidates.shard.group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).movedim(0, dim)


def stack(candidates: Candidates, rows: Tensor) -> tuple[Tensor, int]:
    """Any number of rows from each rank, one rank's after the other's, and where those of this rank begin."""
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
    """The inverse of `gather`: the part of this rank."""
    if candidates.shard is None:
        return values
    at = candidates.shard
    return values.narrow(dim, at.first(axis), at.sizes(axis)[at.rank])


def first_row(candidates: Candidates) -> int:
    """The first packed row of this rank in the whole set."""
    return 0 if candidates.shard is None else candidates.shard.first("candidates")
