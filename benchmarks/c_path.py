"""What a path over seven values of C costs beside single trainings: mammals, 60/40, one core.

python benchmarks/c_path.py [folds, 5]
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

from lvmdc import DISC, LSVM, LabelLoss, OverlapLoss, ZeroOneLoss, fit_path
from lvmdc.data import split_by_class

PATH = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2]
CASES = [(LSVM, LabelLoss()), (DISC, ZeroOneLoss()), (DISC, OverlapLoss())]


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds, and what came of it."""
    started = time.process_time()
    result = function()
    return time.process_time() - started, result


def main() -> None:
    torch.set_num_threads(1)
    mammals = Mammals()
    folds, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5, {}
    for method, loss in CASES:  # what loads or compiles once, does so here
        method(loss=loss).fit(mammals.candidates.subset([0, 50, 100, 150]), mammals.y[[0, 50, 100, 150]])
    for fold, (method, loss) in tqdm(list(itertools.product(range(folds), CASES)), unit="path"):
        train, _ = split_by_class(mammals.y, fold=fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        w = torch.randn(6, candidates.n_features)
        unit = min(timed(lambda: [candidates.features @ w.T for _ in range(20)])[0] / 20 for _ in range(5))  # noqa: B023
        model = method(loss=loss, seed=fold)
        one = [timed(lambda C=C: method(loss=loss, seed=fold, C=C).fit(candidates, y)) for C in PATH]  # noqa: B023
        path = timed(lambda: fit_path(model, candidates, y, PATH))  # noqa: B023
        objectives = [[m.objective_ / m.C for m in models] for models in ([m for _, m in one], path[1])]
        alone = [seconds / unit for seconds, _ in one]
        costs = {"one": alone[4], "mean": np.mean(alone), "dearest": max(alone), "seven": sum(alone), "path": path[0] / unit}
        found = costs | {"objective_alone": np.mean(objectives[0]), "objective_path": np.mean(objectives[1])}
        record(method=method.__name__, loss=type(loss).__name__, fold=fold, seconds_a_pass=unit, **found)
        rows.setdefault(f"{method.__name__} {type(loss).__name__}", []).append(list(found.values()))
    print(f"CPU time in scoring passes, mean of {folds} folds; ratios of the path to the mean and the dearest of the seven alone;")
    print("objective / C, mean over the path")
    head = f"{'C = 1 alone':>12}{'mean alone':>11}{'dearest':>8}{'seven alone':>12}{'the path':>9}{'/ mean':>8}{'/ dearest':>10}"
    print(f"{'':>18}{head}{'alone':>9}{'path':>9}")
    for name, several in rows.items():
        single, mean, dearest, seven, along, *objective = np.mean(several, axis=0)
        text = f"{single:>12.0f}{mean:>11.0f}{dearest:>8.0f}{seven:>12.0f}{along:>9.0f}{along / mean:>8.1f}{along / dearest:>10.2f}"
        print(f"{name:>18}{text}{objective[0]:>9.4f}{objective[1]:>9.4f}")


if __name__ == "__main__":
    main()
