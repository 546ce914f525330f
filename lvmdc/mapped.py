"""Features that are mapped from disk, read by chunks that leave memory again.

Pages of a map count as resident once they were read, and the system takes them back only when it is short of memory. A pass over a file
of 100 GB would therefore look as if it took 100 GB, and on a cluster that ends jobs by what they hold it would be ended. Here every chunk
is given back when it was used: the file stays in the system's cache where there is room for it, outside of the process.
"""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from weakref import WeakValueDictionary

import numpy as np
import torch  # noqa: F401  for the examples below
from torch import Tensor

CHUNK_NUMBERS = 1 << 21  # features that are read, converted or gathered at a time: 16 MB in float64
MARGIN = 1 << 21  # bytes: to read a page, the system may map the whole folio it lies in, up to this size
SCATTERED = 16  # rows gathered at a time: to read one, the system may map as much of its folio, too, as MARGIN says

# By the address where a tensor's storage begins; an entry lives as long as its map, whose address no other storage can have meanwhile.
_maps: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()


def remember(array: np.ndarray, tensor: Tensor) -> Tensor:
    """The tensor, which is known to be mapped from now on if the array that it shares memory with is."""
    source = getattr(array, "_mmap", None)
    # What was written to a private copy is in memory only and would be lost.
    if isinstance(source, mmap.mmap) and getattr(array, "mode", "c") != "c":
        _maps[tensor.untyped_storage().data_ptr()] = source
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):  # a system without huge pages
                source.madvise(mmap.MADV_NOHUGEPAGE)  # else one row that is read may map the 2 MB around it
    return tensor


def is_mapped(features: Tensor) -> bool:
    """Whether a tensor, or what it is a view of, is a file.

    >>> is_mapped(torch.eye(2))
    False
    """
    return features.device.type == "cpu" and features.untyped_storage().data_ptr() in _maps


def release(features: Tensor) -> None:
    """Give back the memory of a mapped tensor, or of a view of some of its rows; the next use reads it again."""
    source = _maps.get(features.untyped_storage().data_ptr()) if features.device.type == "cpu" else None
    if source is None or not hasattr(source, "madvise") or features.numel() == 0:  # Windows has no such advice
        return
    base = np.frombuffer(source, np.uint8).__array_interface__["data"][0]
    first = features.data_ptr() - base
    last = first + sum((size - 1) * stride for size, stride in zip(features.shape, features.stride(), strict=True)) * features.itemsize
    start = max(0, first - MARGIN)
    start -= start % mmap.PAGESIZE
    source.madvise(mmap.MADV_DONTNEED, start, min(last + features.itemsize + MARGIN, len(source)) - start)


def row_chunks(features: Tensor, numbers: int | None = None) -> Iterator[Tensor]:
    """Views of consecutive rows of features (T, d), each of which leaves memory when the next is asked for, if it is mapped.

    >>> [len(part) for part in row_chunks(torch.zeros(5, 3), numbers=6)]
    [2, 2, 1]
    """
    for part in features.split(rows_at_a_time(features, numbers)):
        yield part
        release(part)


def rows_at_a_time(features: Tensor, numbers: int | None = None) -> int:
    """How many rows a chunk has.

    >>> rows_at_a_time(torch.zeros(5, 3), numbers=6)
    2
    """
    return max(1, (CHUNK_NUMBERS if numbers is None else numbers) // max(1, features.shape[1]))


def take(features: Tensor, rows: Tensor) -> Tensor:
    """features[rows] (m, d); of a file no more is in memory at a time than a few neighbours of those rows.

    >>> take(torch.eye(3), torch.tensor([2, 0]))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if not is_mapped(features):
        return features[rows]
    out = features.new_empty(len(rows), features.shape[1])
    for start in range(0, len(rows), SCATTERED):
        out[start : start + SCATTERED] = features[rows[start : start + SCATTERED]]
        release(features)
    return out
