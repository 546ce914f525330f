"""Test loss of DISC, LSVM, ILSVM and the supervised bound on the mammals, every start beside the others: 60/40 by class, five folds.

python benchmarks/mammals_table.py [random starts] [J of DISC] [C]
"""

import itertools
import sys

import numpy as np
import torch
from mammals import Mammals
from tqdm import tqdm

from lvmdc import DISC, ILSVM, LSVM, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.samples import split_by_class


def main() -> None:
    torch.set_num_threads(1)
    mammals, starts = Mammals(), int(sys.argv[1]) if len(sys.argv) > 1 else 1
    J = float(sys.argv[2]) if len(sys.argv) > 2 else 0.001
    C = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    settings = list(
        itertools.product(("likelihood", "central", "uniform", "random"), (ZeroOneLoss(), OverlapLoss()), (LSVM, ILSVM, DISC, Supervised))
    )
    table: dict[tuple, list[tuple[float, float]]] = {}
    for fold, (init, loss, method) in tqdm(list(itertools.product(range(5), settings)), unit="training"):
        train, test = split_by_class(mammals.y, fold=fold)
        n_init = starts if init == "random" and method is not Supervised else 1
        model = method(loss=loss, C=C, init=init, seed=100 * fold, n_init=n_init, **({"J": J} if method is DISC else {}))
        model.fit(mammals.candidates.subset(train), mammals.y[train], h=mammals.h[train] if method is Supervised else None)
        held_out, y, h = mammals.candidates.subset(test), mammals.y[test], mammals.h[test]
        errors = 100 * (1 - model.score(held_out, y, h)), 100 * (1 - model.score(held_out, y))
        table.setdefault((init, type(loss).__name__, method.__name__), []).append(errors)
    print(f"C = {C:g}, J = {J:g}, starts = {starts}; test loss % (± over folds), class error %")
    for (init, loss_name, method_name), values in table.items():
        loss_mean, error_mean = np.mean(values, axis=0)
        print(f"{init:>10} {loss_name:>12} {method_name:>11} {loss_mean:6.1f} ± {np.std(values, axis=0, ddof=1)[0]:3.1f} {error_mean:6.1f}")


if __name__ == "__main__":
    main()
