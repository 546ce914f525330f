"""How training grows: over samples n, candidates |H|, features d and classes K. One core.

Every sample has one candidate that shows its class and others that are noise. An axis grows while the others stay; time is CPU time of
`fit`, after a small fit that compiles and loads, the least of three where it is short. Memory is how far the peak during `fit` rose above
what was held before, data included, and the peak itself. The exponents are slopes of log time over log size: over all sizes of at least a
hundredth of the largest, over the last three, among which the features outgrow the processor's caches, and, over the former, of time a
pass: where that is less, it is the passes that grow. The overlap loss needs Δ between all pairs of a sample's candidates, so its time a
pass may grow with an exponent of 2 over |H|, and only there.

    python benchmarks/growth.py [png]
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from record import record
from resident import forget_peak, held
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from lvmdc import DISC, LSVM, Candidates, ConvergenceWarning, LabelLoss, OverlapLoss, ZeroOneLoss

METHODS: dict[str, Any] = {"LSVM, label": (LSVM, LabelLoss), "DISC, 0/1": (DISC, ZeroOneLoss), "DISC, overlap": (DISC, OverlapLoss)}
BASE = {"n": 200, "H": 10, "d": 100, "K": 4}
AXES: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {
    "n": ({"H": 5, "d": 50}, (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)),
    "H": ({"n": 20, "d": 200}, (10, 30, 100, 300, 1_000, 3_000, 10_000)),
    "d": ({"n": 200}, (100, 300, 1_000, 3_000, 10_000)),
    "K": ({"n": 800, "H": 5}, (2, 6, 20, 60, 200)),
}
LAST, RANGE = 3, 100  # sizes over which exponents are taken: this number, or down to this share of the largest; below, it is overhead
SHORT, REPEATS = 1.0, 3  # a fit of fewer CPU seconds is repeated


def samples(n: int, H: int, d: int, K: int) -> tuple[Candidates, torch.Tensor]:
    """n samples of H boxes with d features and K classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % K
    x = rng.standard_normal((n, H, d), np.float32) / d**0.5
    means = 2.0 * rng.standard_normal((K, d), np.float32) / d**0.5
    x[np.arange(n), rng.integers(H, size=n)] += means[y]
    corner, extent = rng.uniform(0, 400, (n * H, 2)), rng.uniform(40, 200, (n * H, 2))
    boxes = np.concatenate([corner, corner + extent], axis=1).astype(np.float32)
    return Candidates(x.reshape(n * H, d), np.full(n, H), boxes), torch.from_numpy(y)


def learner(method: str) -> Any:
    """A new one."""
    kind, loss = METHODS[method]
    settings = {"C": 10.0, "tol": 0.01, "cccp": "eager", "max_iter": 5, "memory_budget": 1 << 29}
    return kind(loss(), **settings | ({"J": 0.001} if kind is DISC else {}))


def measure(method: str, size: dict[str, int]) -> dict[str, float]:
    """One training at one size."""
    candidates, y = samples(**size)
    before, times = forget_peak(), []
    while len(times) < REPEATS and sum(times) < SHORT:
        started = time.process_time()
        model = learner(method).fit(candidates, y)
        times.append(time.process_time() - started)
        if len(times) == 1:
            peak = held("VmHWM")
    last = model.history_[-1]
    return {"seconds": min(times), "passes": last["passes"], "error": last["error"], "megabytes": peak - before, "peak": peak}


def exponent(sizes: list[float], values: list[float], last: int | None = None) -> float:
    """The slope of log values over log sizes, over the last ones, or all that are at least a hundredth of the largest.

    >>> round(exponent([1, 10, 100, 1000], [1.0, 1.0, 10.0, 100.0]), 2)
    1.0
    """
    last = last or sum(size >= sizes[-1] / RANGE for size in sizes)
    return float(np.polyfit(np.log(sizes[-last:]), np.log(values[-last:]), 1)[0])


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Time over size for each axis, log scales, with the exponents."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(AXES), figsize=(4 * len(AXES), 3.4), layout="constrained")
    for plot, axis in zip(axes, AXES, strict=True):
        for method in METHODS:
            own = [row for row in found if (row["axis"], row["method"]) == (axis, method)]
            sizes, seconds = [row["size"] for row in own], [row["seconds"] for row in own]
            plot.loglog(sizes, seconds, marker="o", label=f"{method}: {exponent(sizes, seconds):.2f}")
        plot.set(xlabel="|H|" if axis == "H" else axis, ylabel="CPU seconds")
        plot.margins(y=0.3)  # room for the legend
        plot.legend(title="exponent", fontsize="small", loc="upper left")
        plot.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def main() -> None:
    torch.set_num_threads(1)
    threadpool_limits(1)  # numpy's threads, too: for long vectors they wait in a loop, and that counts as CPU time
    warnings.simplefilter("ignore", ConvergenceWarning)
    for method in METHODS:  # what loads or compiles once, does so here
        learner(method).fit(*samples(8, 3, 5, 2))
    jobs, found = [(axis, method, value) for axis, (_, values) in AXES.items() for method in METHODS for value in values], []
    for axis, method, value in tqdm(jobs, unit="training"):
        found.append({"axis": axis, "method": method, "size": value, **measure(method, BASE | AXES[axis][0] | {axis: value})})
        record(**found[-1])
    head = f"{'MB more':>9}{'peak MB':>9}{'exponent':>10}{'last 3':>8}{'a pass':>8}"
    print(f"{'axis':<6}{'method':<15}{'CPU seconds at each size (passes)':<{19 * 7}}{head}")
    for axis, (_, values) in AXES.items():
        for method in METHODS:
            own = [row for row in found if (row["axis"], row["method"]) == (axis, method)]
            text = "".join(f"{row['size']:>8,}: {row['seconds']:.2f} ({row['passes']:.0f})".ljust(19) for row in own)
            seconds, sizes = [row["seconds"] for row in own], list(values)
            each = exponent(sizes, [row["seconds"] / row["passes"] for row in own])
            memory = f"{own[-1]['megabytes']:>9.0f}{own[-1]['peak']:>9.0f}"
            slopes = f"{exponent(sizes, seconds):>10.2f}{exponent(sizes, seconds, LAST):>8.2f}{each:>8.2f}"
            print(f"{axis:<6}{method:<15}{text:<{19 * 7}}{memory}{slopes}")
    print("MB are those of the last size")
    if len(sys.argv) > 1:
        draw(found, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
