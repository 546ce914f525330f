"""How training grows: over samples n, candidates |H|, features d and classes K. One core, each size in a process of its own.

Every sample has one candidate that shows its class and others that are noise. An axis grows while the others stay; time is CPU time of
`fit`, after a small fit that compiles and loads, memory the growth of the peak during it. The exponent is the slope of log time over log
size between the last sizes of an axis, where what a fit costs at any size no longer counts. The overlap loss needs Δ between all pairs of
a sample's candidates, so its exponent over |H| may come near 2, and only there.

    python benchmarks/growth.py [json]
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from lvmdc import DISC, LSVM, Candidates, ConvergenceWarning, LabelLoss, OverlapLoss, ZeroOneLoss

METHODS = {"LSVM, label": (LSVM, LabelLoss), "DISC, 0/1": (DISC, ZeroOneLoss), "DISC, overlap": (DISC, OverlapLoss)}
BASE = {"n": 200, "H": 10, "d": 100, "K": 4}
AXES: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {
    "n": ({"H": 5, "d": 50}, (100, 1_000, 10_000, 100_000)),
    "H": ({"n": 20, "d": 200}, (10, 100, 1_000, 10_000)),
    "d": ({"n": 200}, (100, 1_000, 10_000)),
    "K": ({"n": 800, "H": 5}, (2, 20, 200)),
}
LAST = 2  # sizes between which the exponent is measured


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


def measure(method: str, size: dict[str, int]) -> dict[str, float]:
    """One training at one size."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    kind, loss = METHODS[method]
    settings = {"C": 10.0, "tol": 0.01, "cccp": "eager", "max_iter": 5, "memory_budget": 1 << 29} | ({"J": 0.001} if kind is DISC else {})
    kind(loss(), **settings).fit(*samples(8, 3, 5, 2))
    candidates, y = samples(**size)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    model = kind(loss(), **settings).fit(candidates, y)
    seconds = time.process_time() - started
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # kilobytes on Linux
    return {"seconds": seconds, "megabytes": megabytes, "passes": model.history_[-1]["passes"], "error": model.history_[-1]["error"]}


def apart(method: str, size: dict[str, int]) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "one", method, json.dumps(size)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds over log size between the last sizes.

    >>> round(exponent([1, 10, 100], [1.0, 1.0, 10.0]), 2)
    1.0
    """
    return float(np.polyfit(np.log(sizes[-LAST:]), np.log(seconds[-LAST:]), 1)[0])


def rows() -> list[dict]:
    """All measurements, in the order of the axes."""
    jobs = [(axis, method, value) for axis, (_, values) in AXES.items() for method in METHODS for value in values]
    found = []
    for axis, method, value in tqdm(jobs, unit="training"):
        size = BASE | AXES[axis][0] | {axis: value}
        found.append({"axis": axis, "method": method, "size": value, **apart(method, size)})
    return found


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(sys.argv[2], json.loads(sys.argv[3]))))
        return
    found = rows()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{'axis':<6}{'method':<16}{'CPU seconds at each size (passes)':<72}{'MB at the last':>16}{'exponent':>10}")
    for axis, (_, values) in AXES.items():
        for method in METHODS:
            own = [row for row in found if (row["axis"], row["method"]) == (axis, method)]
            seconds = [row["seconds"] for row in own]
            text = "  ".join(f"{row['size']:,}: {row['seconds']:.2f} ({row['passes']:.0f})" for row in own)
            print(f"{axis:<6}{method:<16}{text:<72}{own[-1]['megabytes']:>16.0f}{exponent(list(values), seconds):>10.2f}")


if __name__ == "__main__":
    main()
