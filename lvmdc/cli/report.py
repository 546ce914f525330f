"""The end of a run: tables, images, the report page, hyperparameters for TensorBoard, and where all of it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import TensorBoardLogger

from lvmdc.lightning.detector import DetectorModule, images_of
from lvmdc.lightning.drawing import draw_learned, draw_samples
from lvmdc.lightning.module import LatentModule
from lvmdc.reporting import Table, contact_sheet, results_table, write_report
from lvmdc.reporting.drawing import png
from lvmdc.reporting.record import command_line
from lvmdc.storage.files import SafeNames, write_atomically, write_measures
from lvmdc.vision.detection import pseudo_labels, save_coco

log = logging.getLogger(__name__)
SHOWN = 24  # images of the test part in the report
SHEET = 1024  # pixels across of all of them on one sheet: four of the usual size
COLUMNS = 6  # scenes in a row of a sheet
PER_CLASS = 6  # training images that show what was found of a class, as soon as it is learned
SURE = 0.5  # probability above which a box is drawn
NAMES = {"loss": "loss", "error": "class error", "corloc": "CorLoc", "overlap": "mean overlap", "latent_error": "latent error"}
NAMES |= {"ap": "AP", "ap_11_point": "AP, 11 points", "coco/AP": "COCO AP", "recall": "found by proposals"}
PARTS = {"train": "training", "val": "validation", "test": "test"}
PARTS |= {f"{part}_supervised": f"{name}, ground-truth boxes" for part, name in PARTS.items()}
PARTS |= {"test_central": "test, most central candidate", "test_random": "test, random candidate"}


def finish(trainer: pl.Trainer, module: LatentModule, measures: dict[str, float], folder: Path, cfg: DictConfig) -> None:
    """Say and show how it went. `measures` are those of the test part, as Lightning logged them."""
    if not module.history():
        return
    results = all_results(module, measures)  # of all ranks
    if not trainer.is_global_zero:
        return
    table = measures_table(results, module.classes)
    settings = flat(OmegaConf.to_container(cfg, resolve=True))
    images = _draw(trainer, module, folder / "images")
    found = {f"{part}/{name}": value for part, values in results.items() for name, value in values.items()}
    log_hyperparameters(trainer, settings, found)
    board = f"tensorboard --logdir {folder}"
    write_measures(folder / "results.json", found | {"objective": module.history()[-1]["objective"]})
    if isinstance(module, DetectorModule):
        _save_pseudo_labels(module, folder / "pseudo_labels.json")
    if cfg.extras.report:
        title = f"{cfg.task_name}: {type(module.learner).__name__}"
        write_report(folder / "report.html", title, settings, module.history(), table, images, [command_line(), board])
    log.info("\n%s\n", table.text())
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
        rows.append({"part": PARTS[part]} | {columns[name]: values[name] for name in columns if name in values})
    return results_table(rows, percent=set(columns.values()) & {name for row in rows for name in row})


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


def log_hyperparameters(trainer: pl.Trainer, settings: dict[str, str], measures: dict[str, float]) -> None:
    """Settings and final measures, by which TensorBoard compares runs."""
    groups = ("method.", "loss.", "data.", "features.", "proposals.", "module.", "seed")
    chosen = {k: v for k, v in settings.items() if k.startswith(groups)}
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(chosen, {f"final/{k}": v for k, v in measures.items()})
            logger.save()


def _draw(trainer: pl.Trainer, module: LatentModule, folder: Path) -> list[tuple[str, Any]]:
    test, train = module.data.test, module.data.train
    assert test is not None
    assert train is not None
    learned, drawn = draw_learned(module, train), draw_samples(module, test, SHOWN)
    names = SafeNames(".png")
    for caption, image in drawn:
        write_atomically(folder / names.path(caption.split(":")[0]), png(image))
    columns = max(1, SHEET // max(image.width for _, image in drawn))
    meanings = ("truth", "predicted") if isinstance(module, DetectorModule) else None
    write_atomically(folder / "all.png", png(contact_sheet([image for _, image in drawn], columns, meanings=meanings)))
    if learned:
        write_atomically(folder / "learned.png", png(contact_sheet([image for _, image in learned], 1, legend=False)))
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            for i, (_, image) in enumerate(drawn):
                logger.experiment.add_image(f"test/{i}", np.asarray(image), 0, dataformats="HWC")
    return learned + drawn


def _save_pseudo_labels(module: DetectorModule, path: Path) -> None:
    """The boxes found in the training part as COCO annotations, from which a fully supervised detector can learn."""
    train = module.data.train
    assert train is not None
    images = images_of(train)
    boxes = pseudo_labels(module.detector, train.candidates.to(module.device), images.table, module.pseudo_score)
    save_coco(path, images, boxes.to("cpu"))
