"""CorLoc and AP of detectors that learn from the labels of photographs, next to every baseline and the supervised bound.

    python benchmarks/photographs.py mammals|photos|voc_action|FOLDER [--prior photographs] [--C 0.3 1 3 10 30 100] [--strength 10]
    python benchmarks/photographs.py mammals --ablation --C 30

Data are LVMDC_DATA/mammals, LVMDC_DATA/photos, the action task of VOC 2011 (learned from its list `train`, tested on its list `val`), or a
folder by class with boxes.csv, divided 60/40. Every method has the candidates and the start of `experiment=photos`. Of the C and the
strengths of the prior that are given, each method takes those under which labels that were held back are most likely: three parts of the
training images, first over C, then over the strength. Boxes choose nothing, and the test part is looked at once. A common-object prior is
fitted on the training images. Finished rows are kept in CACHE/photographs.jsonl, and a second call does only what is missing.
"""

import argparse
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from record import record, recorded
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from torch import Tensor
from tqdm import tqdm

from lvmdc import DISC, EM, ILSVM, LSVM, Candidates, OverlapLoss
from lvmdc.learners.prior_strength import label_loss
from lvmdc.priors import CentredBoxPrior, CommonObjectPrior, ProductPrior, SaliencyPrior
from lvmdc.priors.object_box import STRENGTH, ObjectBoxPrior
from lvmdc.reproduction import paired_test
from lvmdc.segments import segment_max
from lvmdc.vision.datasets import folder, mammals, voc_action
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection import ExclusiveDetector, baselines, measure, supervised
from lvmdc.vision.features import CNN, build_candidates
from lvmdc.vision.features.with_prior import TrainingImages, with_prior
from lvmdc.vision.proposals import SelectiveSearch

FRACTION, INNER, SUPERVISED = 0.6, 3, "supervised bound"
METHODS = {"DISC": DISC, "LSVM": LSVM, "ILSVM": ILSVM, "EM": EM}
PRIORS = {
    "none": (),
    "centred_box": ("centred",),
    "common_object": ("common",),
    "saliency": ("saliency",),
    "photographs": ("centred", "common"),
    "photographs_saliency": ("saliency", "common"),
    "all": ("centred", "common", "saliency"),
}
FEATURES = ("area", "L2", "ring", "L2 + columns", "ring + columns")
# Each prior and each feature option alone and together.
ABLATION = [(kind, prior) for prior in ("none", "centred_box", "common_object", "photographs") for kind in ("area", "L2", "ring")]
ABLATION += [("L2 + columns", "photographs"), ("ring + columns", "photographs")]
Row = dict[str, float]


def remembered(prior: ObjectBoxPrior, path: Path | None = None) -> ObjectBoxPrior:
    """The prior, which computes the box of an image once, and keeps it in a file if one is given."""
    compute, found = prior.box, {row["image"]: torch.tensor(row["box"]) for row in (recorded(path) if path else ())}

    def box(image):
        key = hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()
        if key not in found:
            found[key] = compute(image)
            if path:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"image": key, "box": found[key].tolist()}) + "\n")
        return found[key]

    prior.box = box  # type: ignore[method-assign]
    return prior


class SharedStart:
    """A learner whose likelihood start is computed once for all methods and all C: it depends on neither."""

    # Features and prior, which are held so that nothing else takes their place in memory, and the start.
    known: ClassVar[list[tuple[Tensor, Tensor | None, Tensor]]] = []

    def start_posterior(self, samples):
        features, prior = samples.candidates.features, samples.candidates.prior
        if bool((samples.known >= 0).any()):
            return super().start_posterior(samples)
        for other, weights, start in self.known:
            same = other.data_ptr() == features.data_ptr() and other.shape == features.shape
            if same and (weights is prior or (weights is not None and prior is not None and torch.equal(weights, prior))):
                return start.clone()
        start = super().start_posterior(samples)
        self.known[:] = [*self.known[-3:], (features, prior, start)]
        return start.clone()


def detector(method: str, C: float) -> ExclusiveDetector:
    kind = METHODS["DISC" if method == SUPERVISED else method]
    return ExclusiveDetector(type(kind.__name__, (SharedStart, kind), {})(loss=OverlapLoss(), C=C), calibration=0, min_score=0.0)


def voc(data: Path) -> ImageSet:
    """The action task, divided as it was published: the list `train` trains, `val` tests."""
    every, train = voc_action(data / "VOCdevkit"), set(voc_action(data / "VOCdevkit", split="train").names)
    division = [int(name not in train) for name in every.names]
    return ImageSet(every.sources, every.classes, every.y, every.boxes, every.names, division=division)


class Photographs:
    """The photographs of a data set and their candidates."""

    def __init__(self, name: str, cache: Path):
        data = Path(os.environ.get("LVMDC_DATA", "data"))
        known = {"mammals": lambda: mammals(data / "mammals"), "photos": lambda: folder(data / "photos"), "voc_action": lambda: voc(data)}
        self.images = known[name]() if name in known else folder(name)
        if self.images.boxes is None:
            raise SystemExit(f"{name} has no boxes.csv, so nothing can be measured; python scripts/train.py experiment=photos needs none")
        self.network = CNN(mode="roi", longer_side=512, normalise=0.0, contrast="ring", maps_dir=cache / "maps")
        self.candidates = build_candidates(self.images, SelectiveSearch(), self.network, cache)
        self.cache, self.saliency = cache, None

    def prior(self, name: str, train: Tensor) -> ProductPrior | None:
        """By its name in configs/prior, fitted on the training images."""
        if not PRIORS[name]:
            return None
        if "saliency" in PRIORS[name] and self.saliency is None:
            made = SaliencyPrior()
            self.saliency = remembered(made, self.cache / f"saliency-{made.digest[:16]}-{made.threshold:g}.jsonl")
        made = {
            "centred": CentredBoxPrior,
            "common": lambda: remembered(CommonObjectPrior(self.network)),
            "saliency": lambda: self.saliency,
        }
        prior = ProductPrior(*(made[part]() for part in PRIORS[name]))
        return prior.fit(TrainingImages(self.images, train.tolist()))

    def with_prior(self, prior: ProductPrior | None) -> Candidates:
        """Features are [L2, contrast with the ring, columns of the prior]."""
        return self.candidates if prior is None else with_prior(self.images, self.candidates, self.network, prior, columns=1.0)


def described(candidates: Candidates, kind: str, images: ImageSet, width: int, scale: float) -> Candidates:
    """Candidates by some of the features; `area`: L2 × (share of the image's area)^¼; columns have the length of the others."""
    numbers = candidates.features
    used = numbers[:, : width if kind.startswith("ring") else width // 2]
    if kind == "area":
        side = torch.tensor([images.size(i) for i in range(len(images))]).prod(dim=1)[candidates.sample]
        used = used * ((candidates.boxes[:, 2:] - candidates.boxes[:, :2]).prod(dim=1) / side)[:, None] ** 0.25
    if kind.endswith("columns"):
        used = torch.cat([used, scale * numbers[:, width:]], dim=1)
    return Candidates(used.contiguous(), candidates.counts, candidates.boxes, prior=candidates.prior)


def stronger(candidates: Candidates, strength: float) -> Candidates:
    """The same, with the prior at another strength than the default."""
    return candidates if candidates.prior is None else candidates.with_prior(candidates.prior, strength / STRENGTH)


def fitted(method: str, C: float, candidates: Candidates, images: ImageSet) -> ExclusiveDetector:
    made = detector(method, C)
    return supervised(made, candidates, images) if method == SUPERVISED else made.fit(candidates, images.table)


class Inner:
    """Divisions of the training part, on which settings are compared by the labels of what is held back."""

    def __init__(self, candidates: Candidates, images: ImageSet):
        folds = StratifiedKFold(INNER, shuffle=True, random_state=0).split(images.y, images.y)
        index = [tuple(map(torch.from_numpy, fold)) for fold in folds]
        self.parts = [[(candidates.subset(part), images.subset(part)) for part in fold] for fold in index]
        self.known: dict[float, list[Candidates]] = {}

    def log_loss(self, method: str, C: float, strength: float) -> float:
        if strength not in self.known:
            self.known = {strength: [stronger(fold[0][0], strength) for fold in self.parts]}
        found = []
        for own, ((_, images), (others, held_out)) in zip(self.known[strength], self.parts, strict=True):
            w = fitted(method, C, own, images).coef_[:, :-1].float()
            scores = others.features @ w.T
            found.append((torch.stack([segment_max(column.contiguous(), others.counts) for column in scores.T], dim=1), held_out.y))
        return label_loss(*(torch.cat(each) for each in zip(*found, strict=True)))


def chosen(
    methods: Sequence[str], candidates: Candidates, images: ImageSet, Cs: Sequence[float], strengths: Sequence[float], bar: tqdm
) -> dict[str, tuple[float, float]]:
    """C and strength of each method: C at the strength nearest to the default, then the strength at that C."""
    middle = min(strengths, key=lambda strength: abs(strength - STRENGTH))
    if len(Cs) == len(strengths) == 1:
        return dict.fromkeys(methods, (Cs[0], middle))
    inner, losses = Inner(candidates, images), {method: {} for method in methods}

    def of(method: str, C: float, strength: float) -> None:
        bar.set_postfix_str(f"validation: {method}, C = {C:g}, strength {strength:g}")
        if (C, strength) not in losses[method]:
            losses[method][C, strength] = inner.log_loss(method, C, strength)

    for method in methods:
        for C in Cs:
            of(method, C, middle)
    best = {method: min(found, key=found.__getitem__)[0] for method, found in losses.items()}
    for strength in strengths:
        for method in methods:
            of(method, best[method], strength)
    return {method: min(found, key=found.__getitem__) for method, found in losses.items()}


class Table:
    """Rows by name and division, kept in a file."""

    def __init__(self, path: Path, settings: dict):
        self.path, self.settings = path, settings
        mine = [row for row in recorded(path) if row["settings"] == json.loads(json.dumps(settings))]
        self.rows: dict[tuple[str, int], Row] = {(row["name"], row["division"]): row["values"] for row in mine}

    def add(self, name: str, division: int, values: Row) -> None:
        self.rows[name, division] = values
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"settings": self.settings, "name": name, "division": division, "values": values}) + "\n")
        tqdm.write(line(f"division {division}: {name}", [values]))

    def of(self, name: str) -> list[Row]:
        return [values for (own, _), values in sorted(self.rows.items(), key=lambda item: item[0][1]) if own == name]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.rows))


def line(name: str, values: Sequence[Row]) -> str:
    def of(key: str) -> str:
        found = [100 * value[key] for value in values if key in value]
        spread = f" ± {np.std(found, ddof=1):4.1f}" if len(found) > 1 else ""
        return f"{f'{np.mean(found):.1f}{spread}' if found else '':>14s}"

    settings = ["/".join(f"{value[key]:g}" for key in ("C", "strength") if key in value) for value in values]
    return f"{name:42s}{of('corloc')}{of('ap')}  {' '.join(settings)}".rstrip()


def learn(table: Table, data: Photographs, fold: int, given: argparse.Namespace, bar: tqdm) -> None:
    """The rows of one division that are not there yet."""
    train, test = data.images.split(FRACTION, fold)
    images, others = data.images.subset(train), data.images.subset(test)
    plan = ABLATION if given.ablation else [(given.features, given.prior)]
    prior_name, every, prior = None, data.candidates, None
    for kind, name in plan:
        suffix = f"{kind}, {name}, " if given.ablation else ""
        methods = [method for method in given.methods if (suffix + method, fold) not in table.rows]
        guesses = not given.ablation and ("centred_box", fold) not in table.rows
        if not methods and not guesses:
            bar.update()
            continue
        if name != prior_name:
            bar.set_postfix_str(f"prior: {name}")
            prior, prior_name = data.prior(name, train), name
            every = data.with_prior(prior)
        sizes = data.candidates.n_features, data.network.scale
        own, out = described(every.subset(train), kind, images, *sizes), described(every.subset(test), kind, others, *sizes)
        if guesses:
            bar.set_postfix_str("baselines")
            for guess, value in baselines(out, others, prior=prior).items():
                table.add(guess, fold, {"corloc": value})
        strengths = given.strength if prior is not None else [STRENGTH]
        settings = chosen(methods, own, images, given.C, strengths, bar)
        for method in methods:
            C, strength = settings[method]
            bar.set_postfix_str(f"{suffix}{method}")
            measures = measure(fitted(method, C, stronger(own, strength), images), out, others)
            kept = {key: measures[key] for key in ("corloc", "ap", "recall")}
            table.add(suffix + method, fold, kept | {"C": C, "strength": strength})
        bar.update()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("data", help="mammals, photos, voc_action, or a folder")
    asked.add_argument("--prior", default="photographs", choices=sorted(PRIORS))
    asked.add_argument("--features", default="ring", choices=FEATURES)
    asked.add_argument("--C", type=float, nargs="+", default=[0.3, 1.0, 3.0, 10.0, 30.0, 100.0], help="tried; one value is taken as it is")
    asked.add_argument("--strength", type=float, nargs="+", default=[STRENGTH], help="of the prior, tried")
    asked.add_argument("--divisions", type=int, default=5)
    asked.add_argument("--cache", type=Path, default=Path("logs/cache"))
    asked.add_argument("--ablation", action="store_true", help="LSVM and DISC with each prior and feature option; --prior is ignored")
    asked.add_argument("--methods", nargs="+", choices=[*METHODS, SUPERVISED])
    given = asked.parse_args()
    given.methods = given.methods or (["LSVM", "DISC"] if given.ablation else [*METHODS, SUPERVISED])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = Photographs(given.data, given.cache)
    divisions = given.divisions if data.images.division is None else 1
    settings = {key: getattr(given, key) for key in ("data", "C", "strength", "ablation")}
    settings |= {} if given.ablation else {"prior": given.prior, "features": given.features}
    table = Table(given.cache / "photographs.jsonl", settings)
    with tqdm(total=divisions * (len(ABLATION) if given.ablation else 1), desc=given.data, unit="setting", smoothing=0) as bar:
        for fold in range(divisions):
            learn(table, data, fold, given, bar)
    print(f"\n{', '.join(f'{key}={value}' for key, value in settings.items())}: {len(data.images)} photographs, {divisions} divisions")
    print(f"{'mean ± std over divisions':42s}{'CorLoc %':>14s}{'AP@0.5 %':>14s}  C/strength of each division")
    for name in table.names:
        values = table.of(name)[:divisions]
        print(line(name, values))
        record(name=name, **settings, **{key: [v.get(key) for v in values] for key in ("corloc", "ap")})
    if divisions > 1 and not given.ablation and "DISC" in table.names:
        for other in (name for name in table.names if name != "DISC"):
            for key in ("corloc", "ap"):
                own, theirs = (np.array([row[key] for row in table.of(name)[:divisions] if key in row]) for name in ("DISC", other))
                if len(own) == len(theirs):
                    test = paired_test(own, theirs, test_share=1 - FRACTION)
                    p = "" if test.p is None else f", p = {test.p:.3f}, corrected for shared images {test.corrected:.3f}"
                    print(f"DISC against {other}: {100 * test.difference:+.1f} points of {key}{p}")


if __name__ == "__main__":
    main()
