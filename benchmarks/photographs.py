"""CorLoc and AP of detectors that learn from the labels of photographs, next to every baseline and the supervised bound.

python benchmarks/photographs.py mammals|photos|FOLDER [--prior photographs] [--divisions 5] [--cache logs/cache] [--ablation]

Data are LVMDC_DATA/mammals, LVMDC_DATA/photos or a folder by class with boxes.csv. Every method has the candidates, the start and the
prior of `experiment=photos`; the prior is fitted on the training part of each division. t-tests are paired over the divisions.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from record import record
from scipy.stats import ttest_rel

from lvmdc import DISC, EM, ILSVM, LSVM, OverlapLoss
from lvmdc.lightning import LatentDataModule
from lvmdc.lightning.data import Samples
from lvmdc.priors import CentredBoxPrior, CommonObjectPrior, Prior, ProductPrior, SaliencyPrior
from lvmdc.vision.datasets import folder, mammals
from lvmdc.vision.detection import ExclusiveDetector, baselines, measure, supervised
from lvmdc.vision.features import CNN
from lvmdc.vision.proposals import SelectiveSearch

C = 30.0
METHODS = {"DISC": DISC, "LSVM": LSVM, "ILSVM": ILSVM, "EM": EM}
# What is varied in the ablation: contrast, columns, names of priors.
ABLATION = {
    "L2, no prior": (None, 0.0, ()),
    "ring, no prior": ("ring", 0.0, ()),
    "L2, centred box": (None, 0.0, ("centred",)),
    "ring, centred box": ("ring", 0.0, ("centred",)),
    "L2, common object": (None, 0.0, ("common",)),
    "ring, common object": ("ring", 0.0, ("common",)),
    "L2, both": (None, 0.0, ("centred", "common")),
    "ring, both": ("ring", 0.0, ("centred", "common")),
    "ring, both, columns": ("ring", 1.0, ("centred", "common")),
}
PRIORS = {
    "none": (),
    "centred_box": ("centred",),
    "common_object": ("common",),
    "saliency": ("saliency",),
    "photographs": ("centred", "common"),
    "photographs_saliency": ("saliency", "common"),
    "all": ("centred", "common", "saliency"),
}


class Photographs:
    """The photographs of a data set, and their candidates with and without contrast."""

    def __init__(self, name: str, cache: Path):
        data = Path(os.environ.get("LVMDC_DATA", "data"))
        self.images = mammals(data / "mammals") if name == "mammals" else folder(data / "photos" if name == "photos" else name)
        self.cache = cache

    def features(self, contrast: str | None) -> CNN:
        return CNN(mode="roi", longer_side=512, normalise=0.0, contrast=contrast, maps_dir=self.cache / "maps")

    def prior(self, names: tuple[str, ...]) -> Prior | None:
        made = {"centred": CentredBoxPrior, "common": lambda: CommonObjectPrior(self.features(None)), "saliency": SaliencyPrior}
        return ProductPrior(*(made[name]() for name in names)) if names else None

    def division(self, fold: int, contrast: str | None, columns: float, prior: Prior | None) -> tuple[Samples, Samples]:
        settings = {"fold": fold, "cache_dir": self.cache, "prior": prior, "prior_columns": columns, "progress": False}
        data = LatentDataModule(self.images, SelectiveSearch(), self.features(contrast), **settings)
        data.setup()
        return data.train, data.test


def detector(method: str) -> ExclusiveDetector:
    return ExclusiveDetector(METHODS[method](loss=OverlapLoss(), C=C), calibration=0, min_score=0.0)


def learned(method: str, train: Samples, test: Samples) -> dict[str, float]:
    began = time.process_time()
    fitted = detector(method).fit(train.candidates, train.items.table)
    seconds = time.process_time() - began
    return {"corloc": 0.0, "ap": 0.0} | measure(fitted, test.candidates, test.items) | {"seconds": seconds}


def line(name: str, values: list[dict[str, float]]) -> str:
    def of(key: str) -> str:
        found = [100 * value[key] for value in values if key in value]
        return f"{np.mean(found):6.1f} ± {np.std(found, ddof=1) if len(found) > 1 else 0:4.1f}" if found else " " * 13

    seconds = [value["seconds"] for value in values if "seconds" in value]
    return f"{name:28s} {of('corloc')}   {of('ap')}   {f'{np.mean(seconds):8.1f}' if seconds else ''}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("data")
    asked.add_argument("--prior", default="photographs", choices=sorted(PRIORS))
    asked.add_argument("--divisions", type=int, default=5)
    asked.add_argument("--cache", type=Path, default=Path("logs/cache"))
    asked.add_argument("--ablation", action="store_true")
    asked.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    given = asked.parse_args()
    torch.set_num_threads(1)
    data = Photographs(given.data, given.cache)
    print(f"{given.data}: {len(data.images)} photographs, C = {C:g}, {given.divisions} divisions; CorLoc %, AP %, CPU s per training")
    table: dict[str, list[dict[str, float]]] = {}
    for fold in range(given.divisions):
        if given.ablation:
            for name, (contrast, columns, priors) in ABLATION.items():
                train, test = data.division(fold, contrast, columns, data.prior(priors))
                for method in ("LSVM", "DISC"):
                    table.setdefault(f"{name}, {method}", []).append(learned(method, train, test))
                    print(line(f"division {fold}: {name}, {method}", table[f"{name}, {method}"][-1:]), flush=True)
            continue
        prior = data.prior(PRIORS[given.prior])
        train, test = data.division(fold, "ring", 0.0, prior)
        for name, value in baselines(test.candidates, test.items, prior=prior).items():
            table.setdefault(name, []).append({"corloc": value})
        for method in given.methods:
            table.setdefault(method, []).append(learned(method, train, test))
        bound = supervised(detector("DISC"), train.candidates, train.items)
        table.setdefault("supervised bound", []).append(measure(bound, test.candidates, test.items))
        for name, values in table.items():
            print(line(f"division {fold}: {name}", values[-1:]), flush=True)
    print(f"\n{'mean ± std over divisions':28s} {'CorLoc':>13s}   {'AP@0.5':>13s}   {'CPU s':>8s}")
    for name, values in table.items():
        print(line(name, values))
        record(name=name, data=given.data, prior=given.prior, corloc=[v["corloc"] for v in values], ap=[v.get("ap") for v in values])
    if not given.ablation and given.divisions > 1 and "DISC" in table:
        for other in [name for name in table if name not in ("DISC", "supervised bound")]:
            own, theirs = ([value["corloc"] for value in table[name]] for name in ("DISC", other))
            if own != theirs:
                gain, p = 100 * (np.mean(own) - np.mean(theirs)), ttest_rel(own, theirs).pvalue
                print(f"DISC against {other}: {gain:+.1f} points of CorLoc, p = {p:.3f}")


if __name__ == "__main__":
    main()
