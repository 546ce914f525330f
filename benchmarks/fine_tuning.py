"""HOG, a network as it was trained on ImageNet, and the same network fine-tuned with w and θ: the mammals, 60/40, five folds.

The windows are those of `reproduce.py figure=1_grid_cnn`, the same for every class, and so are the folds; the settings those of
experiment=object_detection_cnn_mammals for all rows. Trainings that are done are kept, so that what was interrupted goes on; several
processes may do a fold each.

    python benchmarks/fine_tuning.py [folds …, 0 1 2 3 4] [--out logs/fine_tuning]
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np
import torch
from fine_tuning_runs import FROZEN, HOG, TUNED, Training, Trainings
from tqdm import tqdm

from lvmdc.reporting import Table
from lvmdc.reproduction import paired_test
from lvmdc.reproduction.tables import TITLES

FOLDS = range(5)
LOSSES, METHODS = ("overlap", "zero_one"), ("LSVM", "DISC")
COLUMNS = {"loss": "test loss %", "error": "class error %", "corloc": "CorLoc %"}
Key = tuple[str, str, str]  # loss, method, features
NAME = "fine_tuning"


def results(trainings: Trainings, folds: list[int]) -> dict[Key, list[dict[str, float]]]:
    """Measures by fold, of which those asked for are done and others taken where they are kept."""
    keys = list(itertools.product(LOSSES, METHODS, (HOG, FROZEN, TUNED)))
    found: dict[Key, list[dict[str, float]]] = {key: [] for key in keys}
    bar = tqdm(sorted(keys, key=lambda key: key[2] == TUNED), unit="row")  # the quick ones first
    for key in bar:
        loss, method, features = key
        for fold in FOLDS:
            bar.set_postfix_str(f"{features}, {method}, {loss}, fold {fold}")
            measures = trainings.measures(Training(features, method, loss, fold), do=fold in folds)
            if measures is not None:
                found[key].append(measures | {"fold": fold})
    return found


def main_table(found: dict[Key, list[dict[str, float]]]) -> Table:
    """Mean and deviation over the folds."""
    rows = []
    for (loss, method, features), measures in found.items():
        cells = []
        for name in COLUMNS:
            values = 100 * np.array([one[name] for one in measures])
            cells.append(f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else "–")
        seconds = np.mean([one["cpu_seconds"] for one in measures]) if measures else np.nan
        rows.append([TITLES[loss], method, features, *cells, f"{seconds:.0f}"])
    return Table(["loss", "method", "features", *COLUMNS.values(), "CPU s"], rows, [False] * 3 + [True] * 4)


def tests_table(found: dict[Key, list[dict[str, float]]]) -> Table:
    """Fine-tuned against frozen over the folds that both have."""
    rows = []
    for (loss, method), (name, title) in itertools.product(itertools.product(LOSSES, METHODS), COLUMNS.items()):
        tuned, frozen = ({one["fold"]: one[name] for one in found[loss, method, features]} for features in (TUNED, FROZEN))
        both = sorted(tuned.keys() & frozen.keys())
        if len(both) > 1:
            test = paired_test(*(100 * np.array([of[fold] for fold in both]) for of in (tuned, frozen)))
            p = [f"{value:.3f}" if value is not None else "–" for value in (test.p, test.corrected)]
            rows.append([TITLES[loss], method, title, f"{test.difference:+.1f} ± {test.deviation:.1f}".replace("-", "−"), *p, str(test.n)])
    return Table(["loss", "method", "measure", "fine-tuned − frozen", "p", "p corrected", "folds"], rows, [False] * 3 + [True] * 4)


def notes(trainings: Trainings) -> list[str]:
    """What the numbers are and are not."""
    cfg, module = trainings.cfg, trainings.cfg.module
    return [
        f"EfficientNet-Lite0 by RoIAlign in {module.network.grid} × {module.network.grid} parts of a window. Fine-tuned: what comes after"
        f" {module.network.frozen} learns for {cfg.trainer.max_epochs} epochs of batches of {cfg.data.batch_size}, AdamW at"
        f" {module.optimizer_backbone.lr:g}, with mirror images, w, θ and h* held at the exact solution on the frozen features; w and θ"
        " end at the exact optimum on the learned ones.",
        "Grid, rate, epochs, what is frozen, whether h* is held, and C (1 or 10) were chosen by the overlap loss of the network's rows on"
        " divisions of the training part of the first fold, which has images of the test parts of the other folds; HOG has the same C.",
        f"Central start, C = {cfg.method.C:g}, J = {cfg.method.J:g}, β = {cfg.method.beta:g} in all rows.",
        "p: two-sided paired t-test over folds; corrected for the training images that they share (Nadeau and Bengio, 2003).",
        "CorLoc: the share of test images whose predicted box overlaps the annotated one by at least half, whatever its class.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folds", nargs="*", type=int, default=list(FOLDS))
    parser.add_argument("--out", type=Path, default=Path("logs") / NAME)
    given = parser.parse_args()
    if not set(given.folds) <= set(FOLDS):
        sys.exit(f"folds must be among 0 to {FOLDS[-1]}, but they are {given.folds}")
    torch.set_num_threads(1)
    trainings = Trainings(given.out)
    found = results(trainings, given.folds)
    tables = [main_table(found), tests_table(found)]
    print("\n\n".join([*(table.text() for table in tables), *notes(trainings)]))


if __name__ == "__main__":
    main()
