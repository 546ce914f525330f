"""What a pass over features on disk should take: 2·T·d·K operations at the rate of its product, and T·d numbers at the rate of reading.

Both rates are measured on one core, in seconds of the processor, on some of the file's own rows: GFLOP/s of the package's product of
float32 (rows, d) with (K, d), and GB/s of reading rows that the system has cached and widening them to float32.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lvmdc.joint import product as product_of

ROWS, REPEATS = 2048, 9  # a chunk as the package reads it, at 1,024 numbers a row


@dataclass(frozen=True)
class Rates:
    """Of one core."""

    gflops: float
    gigabytes: float

    def seconds(self, candidates: int, features: int, classes: int, bytes_a_number: int) -> float:
        """What one pass takes by the model."""
        return 2e-9 * candidates * features * classes / self.gflops + 1e-9 * candidates * features * bytes_a_number / self.gigabytes

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
