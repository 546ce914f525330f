"""Every weakly supervised system beside each other, from the same start, C by validation; the supervised bound beneath.

Digits: one division of each of ten sets of images, made from seeds that no setting of the package was chosen on (the likelihood start, the
objectness prior and the J below were chosen on seeds 0 and 11 to 24). 36 images a class are learned from, 114 tested on: with
fewer, methods that differ by a point cannot be distinguished. The prior is in P_θ, in EM and in the likelihood start of all systems.
Mammals: five divisions of the photographs, 60/40 by class, the authors' HOG windows. C, and J of DISC where several are given, are those
of lowest loss on a quarter of the training part that is held back; then all of it is learned from. With a prior, J says how far P_θ may
leave it: with a small J it ends at w's own predictions. Test loss and class error in percent, ± over the sets or divisions.

    python benchmarks/systems.py digits --prior objectness --J 1 --C 10 30 100 300 1000 3000
    python benchmarks/systems.py mammals
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

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.priors import ObjectnessPrior
from lvmdc.samples import split_by_class

SEEDS = tuple(range(31, 41))
SYSTEMS = {
    "LSVM": LSVM,
    "ILSVM": ILSVM,
    "self-paced": lambda **s: LSVM(cccp="self_paced", **s),
    "EM": EM,
    "M3E": M3E,
    "DISC": DISC,
    "supervised": Supervised,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="digits", choices=["digits", "mammals"])
    parser.add_argument("--init", default="likelihood")
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0, 30.0, 100.0])
    parser.add_argument("--J", type=float, nargs="+", default=[0.001], help="of DISC")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--prior", default="none", choices=["none", "objectness"], help="of h, from the image alone; digits only")
    parser.add_argument("--strength", type=float, default=ObjectnessPrior().strength, help="of the prior")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the images of digits")
    given = parser.parse_args()
    if given.prior != "none" and given.data != "digits":
        parser.error("--prior needs digits: the mammals come as windows without images")
    prior = None if given.prior == "none" else ObjectnessPrior(given.strength)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if given.data == "digits":
        sets = [(Digits(per_class=150, seed=seed, prior=prior), 0) for seed in given.seeds]
    else:
        photographs = Mammals()
        sets = [(photographs, fold) for fold in range(5)]
    fraction = 0.24 if given.data == "digits" else 0.6
    table: dict[tuple[str, str], list[tuple[float, float]]] = {}
    chosen: dict[tuple[str, str], list[str]] = {}
    for (data, fold), loss, name in tqdm(list(itertools.product(sets, (OverlapLoss(), ZeroOneLoss()), given.systems)), disable=None):

        def learned(train: torch.Tensor, setting: dict[str, float], loss=loss, name=name, data=data):
            model = SYSTEMS[name](loss=loss, init=given.init, **setting)
            return model.fit(data.candidates.subset(train), data.y[train], h=data.h[train] if name == "supervised" else None)

        train, test = split_by_class(data.y, fraction=fraction, fold=fold)
        inner, held_out = (train[part] for part in split_by_class(data.y[train], fraction=0.75, fold=fold))
        settings = [{"C": C} | more for C in given.C for more in ([{"J": J} for J in given.J] if name == "DISC" else [{}])]
        losses = [1 - learned(inner, s).score(data.candidates.subset(held_out), data.y[held_out], data.h[held_out]) for s in settings]
        setting = settings[int(np.argmin(losses))]
        model, others = learned(train, setting), data.candidates.subset(test)
        key, h = (type(loss).__name__, name), data.h[test]
        table.setdefault(key, []).append(tuple(100 * (1 - model.score(others, data.y[test], truth)) for truth in (h, None)))
        chosen.setdefault(key, []).append("/".join(f"{value:g}" for value in setting.values()))
    print(f"{given.data}, init={given.init}, prior={prior or 'none'}, C by validation among {', '.join(f'{C:g}' for C in given.C)}")
    print(f"{'loss':>12}{'':>12}{'test loss %':>15}{'class error %':>15}  C, for DISC C/J")
    for (loss_name, name), values in table.items():
        (mean, error), spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)[0]
        record(loss=loss_name, method=name, test_loss=mean, spread=spread, class_error=error)
        print(f"{loss_name:>12}{name:>12}{f'{mean:.1f} ± {spread:.1f}':>15}{error:>15.1f}  {' '.join(chosen[loss_name, name])}")


if __name__ == "__main__":
    main()
