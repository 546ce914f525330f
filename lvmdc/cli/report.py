"""The end of a run: tables, images, the report page, hyperparameters for TensorBoard, and where all of it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import TensorBoardLogger

from lvmdc.lightning.board import Board
from lvmdc.lightning.data import LatentDataModule
from lvmdc.lightning.detector import DetectorModule, images_of
from lvmdc.lightning.drawing import captioned_sheet, draw_learned, draw_samples
from lvmdc.lightning.module import LatentModule
from lvmdc.priors import Prior, ProductPrior, SaliencyPrior
from lvmdc.reporting import Table, contact_sheet, results_table, write_report
from lvmdc.reporting.drawing import MEANINGS, png
from lvmdc.reporting.glossary import glossary
from lvmdc.reporting.record import command_line
from lvmdc.storage.files import SUFFIXES, SafeNames, write_atomically, write_measures
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection import pseudo_labels, save_coco
from lvmdc.vision.features import CNN, Concatenated
from lvmdc.vision.features.with_prior import from_prior
from lvmdc.vision.proposals import JitteredBoxes

log = logging.getLogger(__name__)
SHOWN = 24  # images of the test part in the report
SHEET = 1024  # pixels across of all of them on one sheet: four of the usual size
COLUMNS = 6  # scenes in a row of a sheet
PER_CLASS = 6  # training images that show what was found of a class, as soon as it is learned
SURE = 0.5  # probability above which a box is drawn
UNKNOWN = (
    "No ground-truth boxes of test images are known, so how well objects are found cannot be measured: look at the images in the report.\n"
    "A table of boxes (for instance boxes.csv next to the class folders) would measure it."
)
REMEDIES = (
    "Try features=cnn_roi with features.contrast=ring, another prior (prior=photographs or\n"
    "prior=photographs_saliency), proposals=selective_search, a larger method.C, or more images."
)
NAMES = {key: number.name for key, number in glossary()["Results"].items()}
PARTS = {"train": "training", "val": "validation", "test": "test"}
PARTS |= {f"{part}_supervised": f"{name}, ground-truth boxes" for part, name in PARTS.items()}
BASELINES = {key: number.name for key, number in glossary()["Rows of the result table"].items()}


def finish(trainer: pl.Trainer, module: LatentModule, measures: dict[str, float], folder: Path, cfg: DictConfig) -> None:
    """Say and show how it went. `measures` are those of the test part, as Lightning logged them."""
    if not module.history():
        return
    results = {part: values for part, values in all_results(module, measures).items() if values}  # of all ranks
    if not trainer.is_global_zero:
        return
    table = measures_table(results, module.classes)
    settings = flat(OmegaConf.to_container(cfg, resolve=True))
    images = _draw(trainer, module, folder / "images")
    found = {f"{part}/{name}": value for part, values in results.items() for name, value in values.items()}
    groups = ("method.", "loss.", "data.", "features.", "proposals.", "module.", "seed")
    for logger in trainer.loggers:
        if isinstance(logger, Board):
            logger.log_results({name: value for name, value in settings.items() if name.startswith(groups)}, found)
    board = f"tensorboard --logdir {folder}"
    write_measures(folder / "results.json", found | {"objective": module.history()[-1]["objective"]})
    items = module.data.items
    notes = [UNKNOWN] if isinstance(items, ImageSet) and not bool(items.boxed.any()) else []
    if isinstance(module, DetectorModule):
        added = _save_pseudo_labels(module, folder / "pseudo_labels.json")
        notes = [verdict(results), *added, f"Supervision used: {supervision(module.data)}."]
    if cfg.extras.report:
        title = f"{cfg.task_name}: {type(module.learner).__name__}"
        legend = [*_meanings(module), *(["score"] if isinstance(module, DetectorModule) else [])]
        write_report(folder / "report.html", title, settings, module.history(), table, images, [command_line(), board], notes, legend)
    if results:
        log.info("\n%s\n", table.text())
    for note in notes[: -1 if isinstance(module, DetectorModule) else None]:  # the supervision was logged before
        log.info("%s", note)
    log.info("objective %.4f after %d iterations", module.history()[-1]["objective"], len(module.history()))
    log.info("run folder  %s", folder)
    places = {"report": "report.html", "images": "images", "checkpoint": "checkpoints/last.ckpt", "boxes found": "pseudo_labels.json"}
    for name, place in places.items():
        if (folder / place).exists():
            log.info("%-11s %s", name, folder / place)
    log.info("curves      %s", board)


def all_results(module: LatentModule, measures: dict[str, float]) -> dict[str, dict[str, float]]:
    """The measures of the training, validation and test part, and of what they are compared with."""
    parts = {"train": module.data.train, "val": module.data.val}
    found = {part: module.measure(samples) for part, samples in parts.items() if samples is not None}
    if measures:
        found["test"] = {name.removeprefix("test/"): value for name, value in measures.items()}
    return found | module.comparisons()


def measures_table(results: dict[str, dict[str, float]], classes: list[str]) -> Table:
    """Parts of the data below each other, their measures in percent, the average precision of each class last.

    >>> print(measures_table({"test": {"ap": 0.365, "ap/cat": 0.5}}, ["cat"]).text())
    part        AP    AP cat
    ------  ------  --------
    test    36.5 %    50.0 %
    """
    columns = NAMES | {f"ap/{name}": f"AP {name}" for name in classes}
    rows: list[dict[str, object]] = []
    for part, values in results.items():
        rows.append({"part": part_name(part)} | {columns[name]: values[name] for name in columns if name in values})
    return results_table(rows, percent=set(columns.values()) & {name for row in rows for name in row})


def part_name(part: str) -> str:
    """A part of the data and what was measured on it, in words.

    >>> part_name("test_random"), part_name("test_common_object_prior")
    ('test, random candidate', 'test, common object prior alone')
    """
    return PARTS.get(part) or f"test, {baseline_name(part.removeprefix('test_'))}"


def baseline_name(name: str) -> str:
    """A baseline in words; the parts of a prior are called after their classes."""
    return BASELINES.get(name) or f"{name.replace('_', ' ')} alone"


def supervision(data: LatentDataModule) -> str:
    """What a detector learns from besides the pixels, and what its networks were trained on.

    >>> from lvmdc.vision.datasets import digit_scenes
    >>> from lvmdc.vision.features import HOG
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> supervision(LatentDataModule(digit_scenes(n_images=30), WindowGrid(), HOG()))
    'labels of 18 images'
    """
    found = [f"labels of {len(data.division()[0])} images"]
    if shown := int(data.shown().sum()):
        found.append(f"boxes of {shown} images")
    if isinstance(data.proposals, JitteredBoxes):
        found.append("ground-truth boxes, from which proposals are made")
    parts = [data.features, *(data.features.parts.values() if isinstance(data.features, Concatenated) else ())]
    for weights in dict.fromkeys(part.weights for part in parts if isinstance(part, CNN) and part.weights is not None):
        found.append("a classifier trained on ImageNet" if weights == "default" else f"a network with the weights {weights}")
    priors = data.prior.priors if isinstance(data.prior, ProductPrior) else [data.prior]
    if any(isinstance(prior, SaliencyPrior) for prior in priors):
        found.append("a saliency network trained on masks")
    return "; ".join(found)


def verdict(results: dict[str, dict[str, float]]) -> str:
    """Which baselines a detector does not beat on the test part and what to try, or why that cannot be measured.

    >>> print(verdict({"test": {"corloc": 0.5}, "test_random": {"corloc": 0.1}, "test_centred_box": {"corloc": 0.6}}))
    On the test part the detector (CorLoc 50.0 %) does not beat: centred box (60.0 %).
    Try features=cnn_roi with features.contrast=ring, another prior (prior=photographs or
    prior=photographs_saliency), proposals=selective_search, a larger method.C, or more images.
    >>> verdict({"test": {"corloc": 0.5}, "test_common_object_prior": {"corloc": 0.7}}).splitlines()[1]
    'Try prior=common_object alone.'
    """
    own = results.get("test", {}).get("corloc")
    if own is None:
        return UNKNOWN
    guesses = {name.removeprefix("test_"): values["corloc"] for name, values in results.items() if name.startswith("test_")}
    guesses.pop("supervised", None)
    better = {name: value for name, value in guesses.items() if value >= own}
    if better:
        found = "; ".join(f"{baseline_name(name)} ({100 * value:.1f} %)" for name, value in better.items())
        parts = {name: value for name, value in better.items() if name.endswith("_prior") and value > own}
        part = f"Try prior={max(parts, key=parts.__getitem__).removesuffix('_prior')} alone.\n" if parts else ""
        return f"On the test part the detector (CorLoc {100 * own:.1f} %) does not beat: {found}.\n{part}{REMEDIES}"
    return f"On the test part the detector beats every baseline: CorLoc {100 * own:.1f} %."


def settings_of(cfg: DictConfig) -> dict[str, str]:
    """The composed configuration by dotted name."""
    return flat(OmegaConf.to_container(cfg, resolve=True))


def flat(config: Any, prefix: str = "") -> dict[str, str]:
    """Settings by dotted name.

    >>> flat({"method": {"C": 1.0}, "seed": 0})
    {'method.C': '1.0', 'seed': '0'}
    """
    if not isinstance(config, dict):
        return {prefix.rstrip("."): str(config)}
    return {name: text for key, value in config.items() for name, text in flat(value, f"{prefix}{key}.").items()}


def _draw(trainer: pl.Trainer, module: LatentModule, folder: Path) -> list[tuple[str, Any]]:
    train = module.data.train
    assert train is not None
    part, shown = ("train", train) if module.data.test is None else ("test", module.data.test)
    learned, drawn = draw_learned(module, train), draw_samples(module, shown, SHOWN)
    names = SafeNames(".png", SUFFIXES)
    for caption, image in drawn:
        write_atomically(folder / names.path(caption.split(":")[0]), png(image))
    columns = max(1, SHEET // max(image.width for _, image in drawn))
    sheet = captioned_sheet(drawn, columns, _meanings(module))
    write_atomically(folder / "all.png", png(sheet))
    if learned:
        write_atomically(folder / "learned.png", png(contact_sheet([image for _, image in learned], 1, legend=False)))
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_image(f"images/{part}", np.asarray(sheet), 0, dataformats="HWC")
    return learned + drawn


def _meanings(module: LatentModule) -> list[str]:
    """What the drawings of this run may show."""
    items = module.data.items
    known = bool(items.boxed.any()) if isinstance(items, ImageSet) else items.h is not None
    names = ("truth", "predicted") if isinstance(module, DetectorModule) else tuple(MEANINGS)
    return [name for name in names if known or name != "truth"]


def added_note(count: int, total: int, prior: Prior | None) -> str:
    """How many of the boxes found are not proposals but boxes that the prior suggests.

    >>> from lvmdc.priors import CentredBoxPrior
    >>> added_note(3, 4, CentredBoxPrior())
    '3 of 4 boxes are not proposals but boxes that the prior added (centred box): check them in the drawings.'
    """
    names = ", ".join(part.name for part in (prior.priors if isinstance(prior, ProductPrior) else [prior]) if part is not None)
    return f"{count} of {total} boxes are not proposals but boxes that the prior added ({names}): check them in the drawings."


def _save_pseudo_labels(module: DetectorModule, path: Path) -> list[str]:
    """The boxes found in the training part as COCO annotations, from which a fully supervised detector can learn; a note where the prior
    may add boxes."""
    train = module.data.train
    assert train is not None
    images = images_of(train)
    boxes = pseudo_labels(module.detector, train.candidates.to(module.device), images.table, module.pseudo_score)
    save_coco(path, images, boxes.to("cpu"))
    if train.added is None or not bool(train.added.any()):
        return []
    count = int(from_prior(boxes.to("cpu"), train.candidates, train.added).sum())
    return [f"Training images: {added_note(count, len(boxes), module.data.prior)}"]
