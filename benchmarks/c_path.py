"""What a path over seven values of C costs beside single trainings: mammals, 60/40, random starts, one core.

From one start to another the path of DISC varies by a third, hence several a fold, and the standard error of the ratio.

    python benchmarks/c_path.py [folds, 5] [starts, 3]
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
from lvmdc.samples import split_by_class

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
    folds, starts = (int(word) for word in (sys.argv[1:] + ["5", "3"][len(sys.argv) - 1 :])[:2])
    rows: dict[str, list[list[float]]] = {}
    for method, loss in CASES:  # what loads or compiles once, does so here
        method(loss=loss).fit(mammals.candidates.subset([0, 50, 100, 150]), mammals.y[[0, 50, 100, 150]])
    for start, fold, (method, loss) in tqdm(list(itertools.product(range(starts), range(folds), CASES)), unit="path"):
        seed = 5 * start + fold
        train, _ = split_by_class(mammals.y, fold=fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        w = torch.randn(6, candidates.n_features)
        unit = min(timed(lambda: [candidates.features @ w.T for _ in range(20)])[0] / 20 for _ in range(5))  # noqa: B023
        model = method(loss=loss, seed=seed, init="random")
        one = [timed(lambda C=C: method(loss=loss, seed=seed, C=C, init="random").fit(candidates, y)) for C in PATH]  # noqa: B023
        path = timed(lambda: fit_path(model, candidates, y, PATH))  # noqa: B023
        objectives = [[m.objective_ / m.C for m in models] for models in ([m for _, m in one], path[1])]
        alone = [seconds / unit for seconds, _ in one]
        costs = {"one": alone[4], "mean": np.mean(alone), "dearest": max(alone), "seven": sum(alone), "path": path[0] / unit}
        found = costs | {"objective_alone": np.mean(objectives[0]), "objective_path": np.mean(objectives[1])}
        record(method=method.__name__, loss=type(loss).__name__, fold=fold, seed=seed, seconds_a_pass=unit, **found)
        rows.setdefault(f"{method.__name__} {type(loss).__name__}", []).append(list(found.values()))
    print(f"CPU time in scoring passes, mean of {folds} folds from {starts} starts each; ratios of the path to the mean (with its standard")
    print("error) and the dearest of the seven alone; objective / C, mean over the path")
    head = f"{'C = 1 alone':>12}{'mean alone':>11}{'dearest':>8}{'seven alone':>12}{'the path':>9}{'/ mean':>13}{'/ dearest':>10}"
    print(f"{'':>18}{head}{'alone':>9}{'path':>9}")
    for name, several in rows.items():
        table = np.array(several)
        single, mean, dearest, seven, along, *objective = table.mean(axis=0)
        error = np.std(table[:, 4] - along / mean * table[:, 1], ddof=1) / mean / np.sqrt(len(table)) if len(table) > 1 else np.nan
        ratio = f"{along / mean:.2f} ± {error:.2f}"
        text = f"{single:>12.0f}{mean:>11.0f}{dearest:>8.0f}{seven:>12.0f}{along:>9.0f}{ratio:>13}{along / dearest:>10.2f}"
        print(f"{name:>18}{text}{objective[0]:>9.4f}{objective[1]:>9.4f}")


if __name__ == "__main__":
    main()
