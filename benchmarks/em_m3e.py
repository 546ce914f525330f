"""Image classification, where the label alone counts: mammals, loss [y≠ŷ], ε = 1e-3, random starts, the five published folds, one core.

The latent SVM by inexact, eager and self-paced rounds, DISC, EM and M3E beside each other, and what is published for the first and the
third. Objectives of different methods, or of different α, are not comparable; those of the latent SVM, of DISC (Observation 1) and of M3E
with α = ∞ are.

    python benchmarks/em_m3e.py [starts]
"""

import math
import sys
import time

import numpy as np
import torch
from mammals import Mammals
from tqdm import tqdm

from lvmdc import DISC, EM, LSVM, M3E, LabelLoss
from lvmdc.learners import LatentLearner

MODELS: dict[str, LatentLearner] = {
    "LSVM, C = 10": LSVM(LabelLoss(), C=10.0),
    "… eager": LSVM(LabelLoss(), C=10.0, cccp="eager"),
    "… self-paced": LSVM(LabelLoss(), C=10.0, cccp="self_paced"),
    "DISC, C = 10": DISC(LabelLoss(), C=10.0),
    "EM, C = 100": EM(LabelLoss(), C=100.0),
    "EM, C = 10": EM(LabelLoss(), C=10.0),
    "EM, C = 1": EM(LabelLoss(), C=1.0),
    **{f"M3E, C = 10, α = {alpha:g}": M3E(LabelLoss(), C=10.0, alpha=alpha) for alpha in (1.0, 2.0, 10.0, 1000.0, math.inf)},
}
# M. P. Kumar, B. Packer, D. Koller, Self-paced learning for latent variable models, NIPS 2010: objective and test error over the folds.
PUBLISHED = {"LSVM, C = 10": "4.70 ± 0.10, 16.92", "… self-paced": "4.42 ± 0.11, 16.15"}


def main() -> None:
    torch.set_num_threads(1)
    mammals = Mammals()
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rows: dict[str, list[list[float]]] = {name: [] for name in MODELS}
    for name, fold, start in tqdm([(m, f, s) for m in MODELS for f in range(1, 6) for s in range(starts)], unit="training"):
        train, test = mammals.published_fold(fold)
        started = time.process_time()
        model = MODELS[name].set_params(init="random", seed=start).fit(mammals.candidates.subset(train), mammals.y[train])
        seconds = time.process_time() - started
        error = 1 - model.score(mammals.candidates.subset(test), mammals.y[test])
        last = model.history_[-1]
        rows[name].append([model.objective_, 100 * last["error"], 100 * error, model.n_iter_, last["passes"], seconds])
    print(f"{'':<24}{'objective':>16}{'train %':>9}{'test %':>14}{'iterations':>12}{'passes':>8}{'CPU s':>7}{'published':>20}")
    for name, found in rows.items():
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        objective, test = f"{mean[0]:.3f} ± {spread[0]:.3f}", f"{mean[2]:.1f} ± {spread[2]:.1f}"
        print(
            f"{name:<24}{objective:>16}{mean[1]:>9.2f}{test:>14}{mean[3]:>12.1f}{mean[4]:>8.0f}{mean[5]:>7.1f}{PUBLISHED.get(name, ''):>20}"
        )


if __name__ == "__main__":
    main()
