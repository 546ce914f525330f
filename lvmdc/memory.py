"""How much memory the package may take: a setting, not a surprise."""

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
