"""How much memory the package may take: a setting, not a surprise."""

import ctypes
from collections.abc import Callable
from functools import cache
from numbers import Integral

import psutil
import torch


def memory_budget(device: torch.device, limit: int | None = None) -> int:
    """Bytes for temporaries and caches on a device: `limit`, or a quarter of what is free.

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
    """Ask the C library to return to the system what was freed and is kept for later: after large tables, up to hundreds of megabytes.

    Does nothing where the C library has no such call (it is glibc's).

    >>> give_back()
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; Windows, where a library has to be named
        return None
