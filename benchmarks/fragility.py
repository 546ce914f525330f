"""How far results move when nothing that matters changes: features × (1 ± 1e-6), four copies, three divisions 60/40 by class.

Prints the mean test loss, the mean and the largest spread (max − min over the four copies) in points, and the mean objective. One test
image is 0.7 to 0.9 points. Mammals need LVMDC_DATA.

    python benchmarks/fragility.py [digits|mammals] [--C 1 10 30] [--init likelihood] [--cccp exact]
"""

import argparse
import itertools
import warnings

import numpy as np
import torch
from digits import Digits
from mammals import Mammals
from record import record
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from lvmdc import DISC, ILSVM, LSVM, Candidates, OverlapLoss, ZeroOneLoss
from lvmdc.samples import split_by_class

COPIES, DIVISIONS, NOISE = 4, 3, 1e-6
METHODS = {"DISC": lambda **s: DISC(J=0.001, **s), "LSVM": LSVM, "ILSVM": ILSVM}


def copies(candidates: Candidates) -> list[Candidates]:
    """The candidates as they are, and with noise in the last digit of their features."""
    found = [candidates]
    for seed in range(1, COPIES):
        noise = torch.randn(candidates.features.shape, generator=torch.Generator().manual_seed(seed))
        found.append(Candidates(candidates.features * (1 + NOISE * noise), candidates.counts, boxes=candidates.boxes))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="digits", choices=["digits", "mammals"])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 30.0])
    parser.add_argument("--init", default="likelihood")
    parser.add_argument("--cccp", default="exact")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = Digits(per_class=60) if given.data == "digits" else Mammals()
    rows: dict[tuple[str, float, str], list[list[float]]] = {}
    jobs = list(itertools.product(range(DIVISIONS), (OverlapLoss(), ZeroOneLoss()), given.C, METHODS))
    parts = {fold: split_by_class(data.y, fold=fold) for fold in range(DIVISIONS)}
    noisy = {fold: copies(data.candidates.subset(train)) for fold, (train, _) in parts.items()}
    for fold, loss, C, name in tqdm(jobs, unit="setting", disable=None):
        train, test = parts[fold]
        held_out, found, objectives = data.candidates.subset(test), [], []
        for copy in noisy[fold]:
            model = METHODS[name](loss=loss, C=C, init=given.init, cccp=given.cccp).fit(copy, data.y[train])
            found.append(100 * (1 - model.score(held_out, data.y[test], data.h[test])))
            objectives.append(model.objective_)
        rows.setdefault((type(loss).__name__, C, name), []).append([np.mean(found), max(found) - min(found), np.mean(objectives)])
    print(f"{given.data}, init={given.init}, cccp={given.cccp}, noise {NOISE:g}")
    print(f"{'loss':>12}{'C':>7}{'':>8}{'test %':>9}{'spread':>9}{'largest':>9}{'objective':>12}")
    for (loss_name, C, name), values in rows.items():
        test_loss, spread, objective = np.mean(values, axis=0)
        largest = max(value[1] for value in values)
        record(loss=loss_name, C=C, method=name, test_loss=test_loss, spread=spread, largest=largest)
        print(f"{loss_name:>12}{C:>7g}{name:>8}{test_loss:>9.1f}{spread:>9.2f}{largest:>9.2f}{objective:>12.4f}")
    spreads = np.array([[value[1] for value in values] for values in rows.values()])
    print(f"mean spread {spreads.mean():.2f} points, largest {spreads.max():.2f}")


if __name__ == "__main__":
    main()
