"""What a process holds, and has held at most since one asked it to forget: /proc, Linux alone."""

import ctypes
import gc
from pathlib import Path


def held(name: str) -> float:
    """Megabytes by a line of the process's status: VmRSS, what it holds now, or VmHWM, the most since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {name}: this benchmark needs Linux")


def forget_peak() -> float:
    """Begin a new peak; megabytes that are held now. What was freed goes back to the system first, or it would hide what comes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return held("VmRSS")
