"""How much memory the package may use, and features that are mapped from disk, read in chunks that leave memory again.

Pages of a map count as resident once they were read, and the system takes them back only when it is short of memory: a pass over a file of
100 GB would look as if it took 100 GB, and a cluster would end the job. So every chunk is given back after use; it stays in the system's
cache, outside of the process, where there is room for it.
"""

import ctypes
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from numbers import Integral
from weakref import WeakValueDictionary

import numpy as np
import psutil
import torch
from torch import Tensor

from lvmdc.storage import arrays as storage


def memory_budget(device: torch.device, limit: int | None = None) -> int:
    """Bytes for temporaries and caches on a device: `limit`, default a quarter of what is free.

    >>> memory_budget(torch.device("cpu"), 1 << 20)
    1048576
    """
    if limit is not None:
        if not isinstance(limit, Integral) or isinstance(limit, bool) or limit <= 0:
            raise ValueError(f"memory_budget must be a positive whole number of bytes, but it is {limit}")
        return limit
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    return free // 4


def give_back() -> None:
    """Ask the C library to return freed memory to the system: after large tables, up to hundreds of megabytes. Only glibc can."""
    with suppress(AttributeError, OSError, TypeError):  # another C library; Windows, where a library has to be named
        ctypes.CDLL(None).malloc_trim(0)


CHUNK_NUMBERS = 1 << 21  # features that are read, converted or gathered at a time: 16 MB in float64
MARGIN = 1 << 21  # bytes: to read a page, the system may map the whole folio it lies in, up to this size
GATHERED = 1 << 25  # bytes that may be mapped at a time to gather rows, MARGIN around each row included

# By the address of a tensor's storage; an entry lives as long as its map, whose address no other storage can have meanwhile.
_maps: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()


def remember(array: np.ndarray, tensor: Tensor) -> Tensor:
    """The tensor, from now on known to be mapped if the array that it shares memory with is."""
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
    """Views of consecutive rows of features (T, d); if they are mapped, each leaves memory when the next is read.

    >>> [len(part) for part in row_chunks(torch.zeros(5, 3), numbers=6)]
    [2, 2, 1]
    """
    step = rows_at_a_time(features, numbers)
    if len(features) > step and is_mapped(features):  # memory counts: return what was freed before
        give_back()
    for part in features.split(step):
        yield part
        release(part)


def rows_at_a_time(features: Tensor, numbers: int | None = None) -> int:
    """The number of rows of a chunk."""
    return max(1, (CHUNK_NUMBERS if numbers is None else numbers) // max(1, features.shape[1]))


def take(features: Tensor, rows: Tensor) -> Tensor:
    """features[rows] (m, d), in memory; if they are mapped, only some of those rows and their neighbours are resident at a time.

    >>> take(torch.eye(3), torch.tensor([2, 0]))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if not is_mapped(features):
        return features[rows]
    # Neighbours together, whatever the order of the rows.
    out = features.new_empty(len(rows), features.shape[1])
    order, row = rows.argsort(), features.shape[1] * features.itemsize
    apart = rows[order].diff(prepend=rows[order[:1]]) * row
    piece = (apart.clamp(max=MARGIN) + row).cumsum(0) // GATHERED  # which rows are read with which
    for some in order.split(piece.unique_consecutive(return_counts=True)[1].tolist()):
        out[some] = features[rows[some]]
        release(features)
    return out


def take_mapped(features: Tensor, rows: Tensor) -> Tensor:
    """As `take`, but a large part of a mapped file is mapped again, from a temporary file.

    The file lies in the folder that TMPDIR names and has no name, so that it is gone with the last tensor, or the process, that uses it.
    Consecutive rows are a view of the original file.

    >>> take_mapped(torch.eye(3), torch.tensor([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    size = len(rows) * features.shape[1] * features.itemsize
    if size <= storage.MAP_ABOVE or not is_mapped(features):
        return take(features, rows)
    if bool((rows.diff() == 1).all()):
        return features[int(rows[0]) : int(rows[-1]) + 1]
    return stacked((take(features, some) for some in rows.split(rows_at_a_time(features))), len(rows), features)


def stacked(parts: Iterable[Tensor], n_rows: int, like: Tensor) -> Tensor:
    """(n_rows, d'): rows one below the other, each part made when it is needed. In memory; but mapped from a temporary file as by
    `take_mapped`, one part in memory at a time, if they are large and `like` is mapped.

    >>> stacked((torch.full((1, 2), i) for i in range(2)), 2, like=torch.eye(2))
    tensor([[0, 0],
            [1, 1]])
    """
    parts = iter(parts)
    first = next(parts)
    size = n_rows * first.shape[1] * first.itemsize
    if size <= storage.MAP_ABOVE or not is_mapped(like):
        out, row = first.new_empty(n_rows, first.shape[1]), 0
        for part in chain([first], parts):
            out[row : row + len(part)] = part
            row += len(part)
        return out
    try:
        with tempfile.TemporaryFile() as file:
            for part in chain([first], parts):
                file.write(part.contiguous().numpy().data)
            file.flush()
            array = np.memmap(file, first.numpy().dtype, "r", shape=(n_rows, first.shape[1]))
    except OSError as error:
        where = f"{tempfile.gettempdir()}, the folder that TMPDIR names"
        raise OSError(error.errno, f"{where}, must have room for {size} bytes of features, but: {error.strerror}") from None
    return remember(array, storage.tensor_from_numpy(array))
