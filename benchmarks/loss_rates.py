"""How fast expected loss and self-diversity are beside a bare matrix product of the same size. One core.

For the losses that need Δ between all pairs of a sample's candidates, (7) is a product of Δ, (|H|, |H|), with p, and (8) one more: both
take |H|² numbers of 4 bytes, so that they are compared by GB/s with `torch`'s own batched product of tables of that size with vectors,
pᵀΔ or Δp, whichever is the faster, in the same run. The overlap loss computes them as it sums, any other loss (here the same Δ, as one's
own loss would be taken) keeps a table. The 0/1 loss has a closed form that reads |H| numbers; its rate is that of the probabilities,
beside the sum of an array of that length. `pᵀΔ` is the product alone, the class of the sample, and the last column its ratio to torch's;
`(7)` has the other class beside it, which is a table (T, 2) to be written.

    python benchmarks/loss_rates.py
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from record import record
from tqdm import tqdm

from lvmdc import Candidates, OverlapLoss, ZeroOneLoss
from lvmdc.losses import ExpectedLoss

SIZES = (30, 100, 300, 1_000, 3_000)
NUMBERS = 20_000_000  # of Δ in all samples together


class ByTable(OverlapLoss):
    """The overlap loss as a custom loss: only Δ is known."""

    def within_class(self, candidates: Candidates, p: torch.Tensor) -> None:
        return None


LOSSES = {"0/1": ZeroOneLoss, "overlap": OverlapLoss, "any other": ByTable}


def quickest(function: Callable[[], object], repeat: int = 5) -> float:
    """CPU seconds of one call, the least of some."""
    times = []
    for _ in range(repeat):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def samples(size: int, n: int) -> tuple[Candidates, torch.Tensor, torch.Tensor]:
    """n samples of `size` boxes each, their classes and a posterior."""
    rng = np.random.default_rng(0)
    corner, extent = rng.uniform(0, 400, (n * size, 2)), rng.uniform(40, 200, (n * size, 2))
    boxes = np.concatenate([corner, corner + extent], axis=1).astype(np.float32)
    p = torch.from_numpy(rng.dirichlet(np.ones(size), n).astype(np.float32)).flatten()
    return Candidates(np.zeros((n * size, 1), np.float32), np.full(n, size), boxes), torch.arange(n) % 2, p


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'GB/s':<10}{'|H|':>7}{'samples':>9}{'Δ made, s':>11}{'pᵀΔ':>8}{'(7)':>8}{'(8)':>8}{'torch':>8}{'pᵀΔ / torch':>13}")
    for size in tqdm(SIZES, unit="size"):
        n = max(1, NUMBERS // size**2)
        candidates, y, p = samples(size, n)
        table, vector = torch.rand(n, size, size), p.reshape(n, size, 1)
        product = min(quickest(lambda t=table, v=vector: v.mT @ t), quickest(lambda t=table, v=vector: t @ v))
        total = quickest(p.sum)
        for name, make in LOSSES.items():
            began = time.process_time()
            bound = ExpectedLoss(make(), candidates, y, 2, 1 << 31)
            bound.expected_loss(p)
            made = time.process_time() - began
            read, bare = 4e-9 * n * (size if name == "0/1" else size**2), total if name == "0/1" else product
            ways = {"product": bound.within_class, "expected_loss": bound.expected_loss, "diversity": bound.diversity}
            rates = {way: read / quickest(lambda f=f, p=p: f(p)) for way, f in ways.items()} | {"torch": read / bare}
            record(loss=name, H=size, samples=n, made=made, **{f"{way}_gigabytes": rate for way, rate in rates.items()})
            cells = "".join(f"{rate:>8.2f}" for rate in rates.values())
            tqdm.write(f"{name:<10}{size:>7,}{n:>9,}{made:>11.3f}{cells}{rates['product'] / rates['torch']:>13.2f}")


if __name__ == "__main__":
    main()
