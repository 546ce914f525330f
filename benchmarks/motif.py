"""Motif finding on five transcription factors: objective, errors and cost of a latent SVM beside published figures.

The sequences are those of $LVMDC_DATA/motif, about 20,950 a fold, with 51 places each where a motif of width 10 may start. As published:
the first 2,500 of each class learn, C = 150, ε = 1e-3, pairs of letters in the background; of two random starts the one of lower objective
counts, and figures are means and deviations over the five folds. A fold without a test file is tested with the sequences of the other
folds that its own file does not hold.

    python benchmarks/motif.py [--per-class 0] [--starts 2] [--folds 5] [--order 1] [--kinds strict eager self_paced] [--proteins 052 …]
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from lvmdc import LSVM, Candidates, LabelLoss
from lvmdc.sequences import motif

# L. Kuenzel, D. Goodman, Uncertainty- and novelty-based selection criteria for self-paced learning in SSVM with latent variables, 2011, in
# github.com/dgboy2000/spl, writeup/project.tex: objective, training and test error in %, by CCCP and by self-paced learning. The five
# proteins of M. P. Kumar, B. Packer, D. Koller, Self-paced learning for latent variable models, NIPS 2010, are others.
CCCP = {
    "052": ("57.49 ± 1.70", "12.74", "31.65 ± 0.43"),
    "074": ("85.04 ± 2.73", "23.68", "31.44 ± 0.40"),
    "108": ("91.32 ± 29.58", "25.58", "33.79 ± 8.12"),
    "131": ("94.63 ± 27.74", "26.38", "34.95 ± 7.12"),
    "146": ("73.86 ± 38.07", "20.27", "32.36 ± 8.83"),
}
SELF_PACED = {
    "052": ("57.78 ± 1.48", "12.79", "31.77 ± 0.47"),
    "074": ("84.67 ± 3.14", "23.07", "30.83 ± 0.27"),
    "108": ("78.27 ± 4.51", "19.90", "30.33 ± 0.77"),
    "131": ("79.93 ± 1.59", "21.30", "31.49 ± 0.30"),
    "146": ("54.26 ± 1.09", "12.56", "27.97 ± 0.27"),
}
PUBLISHED = {"inexact": CCCP, "eager": {}, "self_paced": SELF_PACED}
COLUMNS = f"{'objective':>15}{'train %':>9}{'test %':>14}"


def learn(train: Candidates, y: torch.Tensor, kind: Any, starts: int, psi: Any) -> tuple[LSVM, float, int]:
    """The start of lowest objective, the CPU seconds of one training, and how many stayed at w = 0."""
    models, started = [], time.process_time()
    for seed in range(starts):
        models.append(LSVM(LabelLoss(), C=150.0, cccp=kind, init="random", seed=seed, joint=psi, n_classes=2).fit(train, y))
    seconds = (time.process_time() - started) / starts
    return min(models, key=lambda model: model.objective_), seconds, sum(not model.coef_.any() for model in models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-class", type=int, default=2500, help="sequences of each class that learn; 0: all")
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--order", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--proteins", nargs="+", default=list(CCCP))
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    root = Path(os.environ.get("LVMDC_DATA", "data")) / "motif"
    if not root.is_dir():
        sys.exit(f"{root} does not exist: set LVMDC_DATA to the folder that holds motif/")
    print(f"{'protein':>8}{'cccp':>12}{COLUMNS}{'CPU s':>7}{'at w = 0':>10}{'':>4}published:{COLUMNS}", flush=True)
    bar = tqdm(total=len(args.proteins) * len(args.kinds) * args.folds * args.starts, unit="training")
    for protein in args.proteins:
        found: dict[str, list[list[float]]] = {kind: [] for kind in args.kinds}
        for fold in range(args.folds):
            data = motif(root, protein, fold, order=args.order, per_class=args.per_class or None)
            candidates = data.candidates()
            (train, y), (test, y_test) = ((candidates.subset(part), data.y[part]) for part in data.division or ())
            for kind in args.kinds:
                learn(train.subset([0, -1]), y[[0, -1]], kind, 1, data.psi)  # what compiles, does so here
                best, seconds, nowhere = learn(train, y, kind, args.starts, data.psi)
                errors = [100 * (1 - best.score(*part)) for part in ((train, y), (test, y_test))]
                found[kind].append([best.objective_, *errors, seconds, nowhere])
                bar.update(args.starts)
        for kind, rows in found.items():
            mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
            cells = f"{f'{mean[0]:.2f} ± {spread[0]:.2f}':>15}{mean[1]:>9.2f}{f'{mean[2]:.2f} ± {spread[2]:.2f}':>14}"
            known = PUBLISHED[kind].get(protein, ("", "", "")) if args.per_class == 2500 else ("", "", "")
            cost = f"{mean[3]:>7.1f}{round(mean[4] * args.folds):>10}"
            line = f"{protein:>8}{kind:>12}{cells}{cost}{'':>14}{known[0]:>15}{known[1]:>9}{known[2]:>14}"
            tqdm.write(line, file=sys.stdout)
            sys.stdout.flush()
    bar.close()


if __name__ == "__main__":
    main()
