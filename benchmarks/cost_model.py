"""What a pass over features on disk should take, from rates that are measured.

It is 2·T·d·K operations at the rate of the product, T·d numbers at the rate of reading, and, over several ranks, a wait for each
all-reduce. Both rates are of one core, in seconds of the processor, on some of the file's own rows: GFLOP/s of the package's product of
float32 (rows, d) with (K, d), and GB/s of reading rows that the system has cached and widening them to float32. What an all-reduce takes,
on the clock, is measured among ranks that have nothing else to do.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from lvmdc.feature_maps import product as product_of

ROWS, REPEATS = 2048, 9  # a chunk as the package reads it, at 1,024 numbers a row
REDUCES = 100  # in a row, to time one


@dataclass(frozen=True)
class Rates:
    """Of one core."""

    gflops: float
    gigabytes: float

    def seconds(self, candidates: int, features: int, classes: int, bytes_a_number: int, waits: float = 0.0) -> float:
        """What one pass takes by the model; `waits` are the seconds of an all-reduce times their number in a pass."""
        product = 2e-9 * candidates * features * classes / self.gflops
        return product + 1e-9 * candidates * features * bytes_a_number / self.gigabytes + waits

    def __str__(self) -> str:
        return f"{self.gflops:.1f} GFLOP/s, {self.gigabytes:.2f} GB/s"


def measure(path: Path, classes: int) -> Rates:
    """The rates of this machine on a file of features (T, d); the best of a few."""
    torch.set_num_threads(1)
    mapped = np.load(path, mmap_mode="r")[:ROWS]
    w, x = torch.randn(classes, mapped.shape[1]), torch.empty(mapped.shape, dtype=torch.float32)
    product_of(x[:1], w)  # compiles
    reading, product = [], []
    for _ in range(REPEATS):
        started = time.process_time()
        x.copy_(torch.from_numpy(np.array(mapped)))
        reading.append(time.process_time() - started)
        started = time.process_time()
        product_of(x, w)
        product.append(time.process_time() - started)
    return Rates(2e-9 * x.numel() * classes / min(product), 1e-9 * mapped.nbytes / min(reading))


def all_reduce_seconds(numbers: int) -> float:
    """Of one all-reduce of that many float64 numbers among the ranks, which all call this; 0 for a single rank."""
    if dist.get_world_size() == 1:
        return 0.0
    values = torch.zeros(numbers, dtype=torch.float64)
    dist.barrier()
    started = time.perf_counter()
    for _ in range(REDUCES):
        dist.all_reduce(values)
    return (time.perf_counter() - started) / REDUCES
