"""One training set over the ranks of torch.distributed: every rank holds some of the samples, and sums over samples travel.

All that exact learning knows of the samples of other ranks are such sums: the cut and its loss, the slope along a line, the terms of the
objective, the gradient in θ. Every rank then takes the same decision from the same numbers. On a set that was not divided each function
here is what it would be without ranks, and needs no process group.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_reduce

from lvmdc.candidates import Candidates
from lvmdc.shards import Axis, Shard, divide, load_shard, place, ranks, shard

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
