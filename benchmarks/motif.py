"""Motif finding on five transcription factors: objective, errors and cost of a latent SVM, C = 150, width 10, beside published figures.

The sequences are those of $LVMDC_DATA/motif, about 20,950 a fold, with 51 places each where the motif may start. For each protein and
kind of CCCP, on the first fold: the lowest objective of several starts and the training and test error of that start, by how much the
highest is above it, and the scoring passes and CPU time of one training. A fold without a test file is tested with the sequences of the
other folds that it does not train with.

Strict CCCP is left out: from a random h the convex problem is solved by w = 0, and nothing is learned.

    python benchmarks/motif.py [starts] [order] [protein …]
"""

import os
import resource
import sys
import time
from pathlib import Path

import torch

from lvmdc import LSVM, LabelLoss
from lvmdc.data import motif

# M. P. Kumar, B. Packer, D. Koller, Self-paced learning for latent variable models, NIPS 2010: means over five folds.
PUBLISHED = {
    "052": {"eager": (92.77, 27.10), "self_paced": (92.37, None)},
    "074": {"eager": (106.50, 32.15), "self_paced": (106.60, None)},
    "108": {"eager": (94.00, 27.10), "self_paced": (93.51, None)},
    "131": {"eager": (116.63, 35.42), "self_paced": (107.18, None)},
    "146": {"eager": (75.51, 20.25), "self_paced": (74.23, None)},
}
HEAD = f"{'protein':>8}{'cccp':>12}{'objective':>11}{'spread':>8}{'train %':>9}{'test %':>8}{'passes':>8}{'CPU s':>7}"
HEAD += f"{'published objective':>21}{'test %':>8}"


def main() -> None:
    torch.set_num_threads(1)
    root = Path(os.environ.get("LVMDC_DATA", "data")) / "motif"
    if not root.is_dir():
        sys.exit(f"{root} does not exist: set LVMDC_DATA to the folder that holds motif/")
    starts, order, proteins = int((sys.argv[1:] or ["3"])[0]), int((sys.argv[2:] or ["3"])[0]), sys.argv[3:] or list(PUBLISHED)
    print(HEAD)
    for protein in proteins:
        data = motif(root, protein, order=order)
        candidates = data.candidates()
        (train, y), (test, y_test) = ((candidates.subset(part), data.y[part]) for part in data.division or ())
        for cccp, published in PUBLISHED[protein].items():
            LSVM(LabelLoss(), cccp=cccp, joint=data.psi, n_classes=2).fit(train.subset([0, -1]), y[[0, -1]])  # what compiles, does so here
            models, seconds = [], []
            for seed in range(starts):
                started = time.process_time()
                models.append(LSVM(LabelLoss(), C=150.0, cccp=cccp, seed=seed, joint=data.psi, n_classes=2).fit(train, y))
                seconds.append(time.process_time() - started)
            best = min(models, key=lambda model: model.objective_)
            errors = 100 * (1 - best.score(train, y)), 100 * (1 - best.score(test, y_test))
            spread = max(model.objective_ for model in models) - best.objective_
            passes = sum(model.history_[-1]["passes"] for model in models) / starts
            figures = f"{best.objective_:>11.2f}{spread:>8.2f}{errors[0]:>9.2f}{errors[1]:>8.2f}{passes:>8.0f}{sum(seconds) / starts:>7.1f}"
            known = f"{published[0]:>21.2f}" + (f"{published[1]:>8.2f}" if published[1] else "")
            print(f"{protein:>8}{cccp:>12}{figures}{known}", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB; order {order}, {candidates}")


if __name__ == "__main__":
    main()
