"""Learning from features on disk within bounded memory: a million candidates of 1,024 float16 numbers, 2 GB, made for the purpose.

Every sample has one candidate that shows its class and others that are noise. The set is written to a temporary folder and mapped; each
method learns in a process of its own, for a few outer iterations. Printed are the peak of what the process held, mapped pages included
(VmHWM of /proc; Linux), what it held before learning, passes over the features, seconds on the clock, on the processor and on it for each
pass, and what came out. One core.

    python benchmarks/memory.py [samples, 33334] [memory budget in MB, 128] [outer iterations, 2]
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import cost_model
import numpy as np
import torch
from record import record

from lvmdc import DISC, LSVM, Candidates, ConvergenceWarning

CANDIDATES, FEATURES, CLASSES, SIGNAL = 30, 1024, 10, 4.0  # a weaker signal leaves w = 0 the best for random h*
METHODS = {
    "LSVM, n_slack, eager": (LSVM, {"cccp": "eager"}),
    "DISC, n_slack, eager": (DISC, {"cccp": "eager", "J": 0.001}),
}


def write(path: Path, samples: int) -> None:
    """Features of candidates, (T, d) in float16, a few samples at a time; the class of sample i is i modulo K."""
    rng = np.random.default_rng(0)
    means = SIGNAL * rng.standard_normal((CLASSES, FEATURES), np.float32) / FEATURES**0.5
    header = {"descr": "<f2", "fortran_order": False, "shape": (samples * CANDIDATES, FEATURES)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, samples, 500):
            i = np.arange(start, min(start + 500, samples))
            x = rng.standard_normal((len(i), CANDIDATES, FEATURES), np.float32) / FEATURES**0.5
            x[np.arange(len(i)), rng.integers(CANDIDATES, size=len(i))] += means[i % CLASSES]
            x.astype(np.float16).tofile(file)


def held(name: str) -> int:
    """Megabytes that this process holds, or has held at most, by a line of its status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError(f"/proc/self/status has no {name}: this benchmark needs Linux")


def learn(path: Path, method: str, budget: int, iterations: int) -> dict[str, float]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    features = np.load(path, mmap_mode="r")
    started, worked = time.perf_counter(), time.process_time()
    candidates = Candidates(features, np.full(len(features) // CANDIDATES, CANDIDATES))
    y = torch.arange(len(candidates)) % CLASSES
    kind, settings = METHODS[method]
    model = kind(C=100.0, max_iter=iterations, memory_budget=budget << 20, **settings)
    model.begin(candidates, y)
    ready, checked = held("VmHWM"), time.perf_counter() - started
    while not model.converged_ and model.n_iter_ < iterations:
        row = model.step()
    seconds = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - worked, "checked": checked}
    return {"ready": ready, "peak": held("VmHWM"), "at_end": held("VmRSS"), **row, **seconds}


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(learn(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
        return
    samples, budget, iterations = (int(a) for a in (*sys.argv[1:4], *(33_334, 128, 2)[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        write(path, samples)
        size = path.stat().st_size / 2**20
        print(f"{samples * CANDIDATES:,} candidates × {FEATURES} float16, {size:,.0f} MB on disk; memory_budget {budget} MB", flush=True)
        rates = cost_model.measure(path, CLASSES)
        predicted = rates.seconds(samples * CANDIDATES, FEATURES, CLASSES, 2)
        print(f"one core: {rates}; so a pass should take {predicted:.2f} s", flush=True)
        head = f"{'peak MB':>9}{'before':>8}{'passes':>8}{'seconds':>9}{'CPU s':>8}{'a pass':>8}{'iterations':>12}"
        print(f"{'method':<26}{head}{'objective':>11}{'error %':>9}")
        for method in METHODS:
            command = [sys.executable, __file__, "one", str(path), method, str(budget), str(iterations)]
            r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            record(method=method, samples=samples, budget=budget, **r)
            figures = f"{r['peak']:>9}{r['ready']:>8}{r['passes']:>8.0f}{r['seconds']:>9.0f}{r['cpu']:>8.0f}"
            pace = f"{r['cpu'] / r['passes']:>8.2f}{r['iteration']:>12}"
            print(f"{method:<26}{figures}{pace}{r['objective']:>11.4f}{100 * r['error']:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
