"""Arrays from anywhere as tensors, and the checks that any of them must pass."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.storage import arrays as storage
from lvmdc.storage import mapped

ArrayLike = Any  # a tensor, a NumPy array, or what NumPy can make one of


def as_tensor(values: ArrayLike) -> Tensor:
    """A tensor that shares memory with `values` where it can, memory maps included."""
    if isinstance(values, Tensor):
        return values
    # NumPy's asarray would turn a map into an ordinary read-only array, which looks like one that must be copied.
    array = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"Expected real numbers but got an array of {array.dtype}")
    if not array.dtype.isnative or any(stride < 0 for stride in array.strides):  # torch supports neither
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    # A read-only array would make torch warn; the package never writes to maps.
    if not array.flags.writeable and not isinstance(array, np.memmap):
        array = array.copy()
    return mapped.remember(array, storage.tensor_from_numpy(array))


def checked_counts(counts: ArrayLike, total: int) -> Tensor:
    """(n,) the number of rows, of `total`, that each sample has: at least one each, and all of them together.

    >>> checked_counts([2, 1], 3)
    tensor([2, 1])
    """
    counts = as_tensor(counts)
    if counts.dim() != 1 or len(counts) == 0 or counts.is_floating_point() or counts.dtype == torch.bool:
        raise ValueError(f"counts must be integers of shape (n,) with n ≥ 1, but it is {counts.dtype} of shape {tuple(counts.shape)}")
    counts = counts.long()
    empty = (counts < 1).nonzero().flatten()
    if len(empty):
        i = int(empty[0])
        raise ValueError(f"counts must give every sample a candidate, but sample {i} has {int(counts[i])}")
    if int(counts.max()) > total or int(counts.sum()) != total:  # a sum alone may overflow
        raise ValueError(f"counts must sum to features.shape[0] = {total}, but it sums to {sum(counts.tolist())}")
    return counts


def check_finite(name: str, values: Tensor, chunk: int = 1 << 24) -> None:
    """Refuse NaN and infinities, in chunks of rows so that a mapped file is not held in memory."""
    start = 0
    for part in mapped.row_chunks(values, chunk):
        finite = torch.isfinite(part)
        if not bool(finite.all()):
            row = start + int((~finite).any(dim=1).nonzero()[0])
            raise ValueError(f"{name} must be finite, but row {row} holds NaN or infinity")
        start += len(part)
