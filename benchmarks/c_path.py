"""What a path over seven values of C costs beside single trainings: mammals, 60/40, five folds, one core.

python benchmarks/c_path.py
"""

import itertools
import time
from collections.abc import Callable

import numpy as np
import torch
from mammals import Mammals
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
    rows: dict[tuple, list] = {}
    for method, loss in CASES:  # what loads or compiles once, does so here
        method(loss=loss).fit(mammals.candidates.subset([0, 50, 100, 150]), mammals.y[[0, 50, 100, 150]])
    for fold, (method, loss) in tqdm(list(itertools.product(range(5), CASES)), unit="path"):
        train, _ = split_by_class(mammals.y, fold=fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        w = torch.randn(6, candidates.n_features)
        unit = min(timed(lambda: [candidates.features @ w.T for _ in range(20)])[0] / 20 for _ in range(5))  # noqa: B023
        model = method(loss=loss, seed=fold)
        one = [timed(lambda C=C: method(loss=loss, seed=fold, C=C).fit(candidates, y)) for C in PATH]  # noqa: B023
        path = timed(lambda: fit_path(model, candidates, y, PATH))  # noqa: B023
        objectives = [[m.objective_ / m.C for m in models] for models in ([m for _, m in one], path[1])]
        costs = one[4][0], max(seconds for seconds, _ in one), sum(seconds for seconds, _ in one), path[0]
        key = method.__name__, type(loss).__name__
        rows.setdefault(key, []).append([*(seconds / unit for seconds in costs), *np.mean(objectives, 1)])
    print("CPU time in scoring passes; objective / C, mean over the path")
    print(f"{'':>18}{'C = 1 alone':>12}{'dearest':>9}{'seven alone':>12}{'the path':>10}{'alone':>9}{'path':>9}")
    for (method, loss), found in rows.items():
        print(f"{method + ' ' + loss:>18}" + "{:>12.0f}{:>9.0f}{:>12.0f}{:>10.0f}{:>9.4f}{:>9.4f}".format(*np.mean(found, axis=0)))


if __name__ == "__main__":
    main()
