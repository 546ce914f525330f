"""Maxima, sums and softmax over the samples of a packed, ragged set.

A packed tensor has T rows; sample i owns ``counts[i]`` consecutive ones. Every function here works along the first
axis, keeps the others, and is differentiable where its mathematics is. All log/exp tricks of the package live here.
"""

import torch
from torch import Tensor


def segment_ids(counts: Tensor) -> Tensor:
    """The sample of each packed row.

    >>> segment_ids(torch.tensor([2, 1, 3]))
    tensor([0, 0, 1, 2, 2, 2])
    """
    return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)


def segment_sum(values: Tensor, counts: Tensor) -> Tensor:
    """Sum over each sample's rows, (T, …) → (n, …).

    >>> segment_sum(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([2, 1]))
    tensor([3., 5.])
    """
    # In float64, since rows are added one by one: a million times 1e-6 is 1.01 in float32.
    return torch.segment_reduce(values.double(), "sum", lengths=counts, axis=0, unsafe=True).to(values.dtype)


def segment_max(values: Tensor, counts: Tensor) -> Tensor:
    """Maximum over each sample's rows, (T, …) → (n, …).

    >>> segment_max(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([2, 1]))
    tensor([2., 5.])
    """
    return torch.segment_reduce(values, "max", lengths=counts, axis=0, unsafe=True)


def segment_argmax(values: Tensor, counts: Tensor, tie: float = 0.0) -> Tensor:
    """The packed row where each sample's maximum lies, the first one if several tie, (T,) → (n,).

    Args:
        tie: values that are below the maximum by at most this share of it tie.

    >>> segment_argmax(torch.tensor([1.0, 2.0, 5.0, 5.0]), torch.tensor([2, 2]))
    tensor([1, 2])
    >>> segment_argmax(torch.tensor([1.99, 2.0]), torch.tensor([2]), tie=0.1)
    tensor([0])
    """
    values = values.detach()
    rows = len(values)
    peak = segment_max(values, counts)
    is_max = values >= (peak - tie * peak.abs() if tie else peak).repeat_interleave(counts, dim=0, output_size=rows)
    # Rows are exact in float64 up to 2^53; segment_reduce takes floating point only.
    position = torch.arange(rows, 0, -1, device=values.device, dtype=torch.float64)
    found = segment_max(position * is_max, counts)
    if not bool(found.all()):  # NaN is equal to nothing
        raise ValueError(f"values must not be NaN, but they are in sample {int((found == 0).nonzero()[0])}")
    return rows - found.long()


def segment_logsumexp(values: Tensor, counts: Tensor) -> Tensor:
    """log Σ exp over each sample's rows without overflow; rows of −inf are ignored, (T,) → (n,).

    >>> segment_logsumexp(torch.tensor([1000.0, 1000.0, 0.0]), torch.tensor([2, 1]))
    tensor([1000.6932,    0.0000])
    """
    peak, below = _peak_and_below(values, counts)
    return segment_sum(below.exp(), counts).log() + peak


def segment_log_softmax(values: Tensor, counts: Tensor) -> Tensor:
    """Log-probabilities that sum to one over each sample's rows, (T,) → (T,).

    >>> segment_log_softmax(torch.tensor([3.0, 3.0, 7.0]), torch.tensor([2, 1])).exp()
    tensor([0.5000, 0.5000, 1.0000])
    """
    # Not values − logsumexp: added to a large peak, the logarithm would lose its digits, and the sum of one with them.
    _, below = _peak_and_below(values, counts)
    return below - segment_sum(below.exp(), counts).log().repeat_interleave(counts, dim=0, output_size=len(below))


def segment_softmax(values: Tensor, counts: Tensor) -> Tensor:
    """Probabilities that sum to one over each sample's rows, (T,) → (T,).

    >>> segment_softmax(torch.tensor([0.0, 0.0, -5.0]), torch.tensor([2, 1]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    return segment_log_softmax(values, counts).exp()


def _peak_and_below(values: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """(n,), (T,): each sample's maximum, without gradient, and how far its rows lie below it."""
    peak = segment_max(values.detach(), counts)
    peak = peak.masked_fill(peak == -torch.inf, 0)  # −inf less itself would be NaN
    return peak, values - peak.repeat_interleave(counts, dim=0, output_size=len(values))
