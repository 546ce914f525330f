"""Test loss over the share of training samples whose box is known: the embedded digits and the mammals, 60/40 by class, five folds.

Boxes are given by `h=`, −1 where they are not; who gets one is drawn once a fold, and who has one keeps it as the share grows. Overlap
loss, C = 10, J = 0.001 for DISC, one start; with all boxes both are the supervised SVM.

    python benchmarks/known_boxes.py [random|central] [png]
"""

import itertools
import sys

import numpy as np
import torch
from digits import Digits
from mammals import Mammals
from tqdm import tqdm

from lvmdc import DISC, LSVM, OverlapLoss
from lvmdc.samples import split_by_class

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0]
FOLDS = 5
LEARNERS = {"LSVM": LSVM(OverlapLoss(), C=10.0), "DISC": DISC(OverlapLoss(), C=10.0, J=0.001)}
STYLES = {"LSVM": {"color": "#0072b2", "marker": "s", "linestyle": "--"}, "DISC": {"color": "#009e73", "marker": "o"}}
Curves = dict[tuple[str, str], np.ndarray]  # data, learner → (shares, folds) test loss in %


def known(h: torch.Tensor, share: float, fold: int) -> torch.Tensor:
    """h (n,) with −1 for all but that share of the samples."""
    order = torch.randperm(len(h), generator=torch.Generator().manual_seed(fold))
    known = order[: round(share * len(h))]
    return torch.full_like(h, -1).index_copy(0, known, h[known])


def measure(init: str) -> Curves:
    """Everything, with a progress bar."""
    sources: dict[str, Digits | Mammals] = {"digits": Digits(), "mammals": Mammals()}
    curves = {key: np.full((len(SHARES), FOLDS), np.nan) for key in itertools.product(sources, LEARNERS)}
    for (data, name), fold, (i, share) in tqdm(list(itertools.product(curves, range(FOLDS), enumerate(SHARES))), unit="training"):
        source = sources[data]
        train, test = split_by_class(source.y, fold=fold)
        model = LEARNERS[name].set_params(init=init, seed=100 * fold)
        model.fit(source.candidates.subset(train), source.y[train], h=known(source.h[train], share, fold))
        curves[data, name][i, fold] = 100 * (1 - model.score(source.candidates.subset(test), source.y[test], source.h[test]))
    return curves


def draw(curves: Curves, path: str) -> None:
    """One panel a data set, mean and deviation over folds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(data for data, _ in curves))
    figure, panels = plt.subplots(1, len(names), figsize=(5 * len(names), 4))
    for axes, data in zip(panels, names, strict=True):
        for i, (name, style) in enumerate(STYLES.items()):
            values = curves[data, name]
            place = 100 * np.array(SHARES) + 0.8 * i
            axes.errorbar(place, values.mean(axis=1), values.std(axis=1, ddof=1), label=name, capsize=3, **style)
        axes.set_title(data)
        axes.set_xlabel("training samples with a box, %")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test overlap loss, %")
    panels[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"wrote {path}")


def main() -> None:
    torch.set_num_threads(1)
    init = sys.argv[1] if len(sys.argv) > 1 else "random"
    if init not in ("random", "central"):
        sys.exit(f"{init!r} is not one of random, central")
    curves = measure(init)
    print(f"test overlap loss % (± over {FOLDS} folds), {init} start, by the share of training samples with a box")
    print(f"{'':>16}" + "".join(f"{f'{100 * share:g} %':>13}" for share in SHARES))
    for (data, name), values in curves.items():
        cells = [f"{row.mean():.1f} ± {row.std(ddof=1):.1f}" for row in values]
        print(f"{data + ' ' + name:>16}" + "".join(f"{cell:>13}" for cell in cells))
    draw(curves, sys.argv[2] if len(sys.argv) > 2 else "known_boxes.png")


if __name__ == "__main__":
    main()
