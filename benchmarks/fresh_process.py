"""What a latent SVM costs in a process that has trained nothing yet: mammals, loss [y≠ŷ], C = 10, ε = 1e-3, random start, one core.

Everything is imported and the data are loaded, but no loop has been called: what is compiled lies in the user's cache folder and has to
be read from there. The unit is that of `lsvm_passes.py`, one bare scoring pass. Then what processes cost beside one that imports torch
alone: the median of ratios of CPU time, each of two processes that ran one after the other.

    python benchmarks/fresh_process.py [folds, 5]
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from mammals import Mammals
from record import record

from lvmdc import LSVM, LabelLoss


def first_fit(fold: int) -> dict[str, float]:
    """The cost of the first training of this process."""
    torch.set_num_threads(1)
    mammals = Mammals()
    index, _ = mammals.published_fold(fold)
    candidates, y = mammals.candidates.subset(index), mammals.y[index]
    began = time.process_time()
    model = LSVM(loss=LabelLoss(), C=10.0, tol=1e-3, init="random", cccp="eager").fit(candidates, y)
    seconds = time.process_time() - began
    w, units = torch.randn(6, candidates.n_features), []
    for _ in range(5):
        began = time.process_time()
        for _ in range(20):
            candidates.features @ w.T
        units.append((time.process_time() - began) / 20)
    return {"seconds": seconds, "cost": seconds / min(units), "objective": model.objective_}


def cpu_seconds(*words: str) -> float:
    """The CPU time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True, cwd=Path(__file__).parents[1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_ratios(times: int = 5) -> None:
    """Whole processes beside `import torch`."""
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            "import lvmdc": ("-c", "import lvmdc"),
            "import pytorch_lightning": ("-c", "import pytorch_lightning"),
            "scripts/train.py experiment=minimal": ("scripts/train.py", "experiment=minimal", f"paths.log_dir={folder}"),
        }
        for name, words in processes.items():
            cpu_seconds(*words)  # from a warm disk
            ratio = statistics.median(cpu_seconds(*words) / cpu_seconds("-c", "import torch") for _ in range(times))
            record(process=name, ratio=ratio)
            print(f"{name}: {ratio:.2f} × import torch")


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(first_fit(int(sys.argv[2]))))
        return
    folds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    run = [sys.executable, __file__, "one"]
    subprocess.run([*run, "1"], check=True, capture_output=True)  # compiles, if this machine has not yet
    rows = [
        json.loads(subprocess.run([*run, str(fold)], check=True, capture_output=True, text=True).stdout) for fold in range(1, folds + 1)
    ]
    for fold, row in enumerate(rows, start=1):
        record(fold=fold, **row)
    seconds, cost, objective = (np.mean([row[name] for row in rows]) for name in ("seconds", "cost", "objective"))
    title = f"n_slack, eager, first training of a process, mean of {folds} folds"
    print(f"{title}: {seconds:.2f} CPU s, cost {cost:.0f}, objective {objective:.3f}")
    print_ratios()


if __name__ == "__main__":
    main()
