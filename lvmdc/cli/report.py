"""The end of a run: table, images, report page, TensorBoard."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger

from lvmdc.boxes import LabelledBoxes
from lvmdc.lightning.callbacks import draw_learned, draw_samples, spread
from lvmdc.lightning.detection_data import Scenes
from lvmdc.lightning.module import LatentModule
from lvmdc.reporting import Table, contact_sheet, draw_scene, results_table, write_report
from lvmdc.reporting.drawing import png
from lvmdc.reporting.record import command_line
from lvmdc.storage.atomic import SafeNames, write_atomically, write_measures
from lvmdc.vision.detection import Detector

log = logging.getLogger(__name__)
SHOWN = 24  # images of the test part in the report
SHEET = 1024  # pixels across of all of them on one sheet: four of the usual size
COLUMNS = 6  # scenes in a row of a sheet
PER_CLASS = 6  # training images that show what was found of a class, as soon as it is learned
SURE = 0.5  # probability above which a box is drawn
NAMES = {"loss": "loss", "error": "class error", "corloc": "CorLoc", "overlap": "mean overlap", "latent_error": "latent error"}
DETECTION_NAMES = {"corloc": "CorLoc", "ap": "AP", "ap_11_point": "AP, 11 points", "coco/AP": "COCO AP", "recall": "found by proposals"}

Drawn = Sequence[tuple[str, Image.Image]]  # captions and images


def finish(trainer: pl.Trainer, module: LatentModule, measures: dict[str, float], folder: Path, cfg: DictConfig) -> None:
    """Write and log the results of a run."""
    history = module.history()
    if not history:
        return
    rows = result_rows(module, measures)  # of all ranks
    if not trainer.is_global_zero:
        return
    assert module.data.test is not None
    assert module.data.train is not None
    learned, drawn = draw_learned(module, module.data.train), draw_samples(module, module.data.test, SHOWN)
    if learned:
        write_atomically(folder / "images" / "learned.png", png(contact_sheet([image for _, image in learned], 1, legend=False)))
    sheet = contact_sheet([image for _, image in drawn], max(1, SHEET // max(image.width for _, image in drawn)))
    log_hyperparameters(trainer, settings_of(cfg), measures)
    write_measures(folder / "results.json", measures | {"objective": history[-1]["objective"]})
    table, title = measures_table(rows), f"{cfg.task_name}: {type(module.learner).__name__}"
    _write(folder, cfg, title, history, table, drawn, sheet, learned)
    log.info("objective %.4f after %d iterations", history[-1]["objective"], len(history))


def finish_detection(
    detector: Detector, test: Scenes, rows: dict[str, dict[str, float]], folder: Path, cfg: DictConfig, loggers: list[Any]
) -> None:
    """Write and log the results of a detector's training."""
    drawn = draw_scenes(detector, test, SHOWN)
    sheet = contact_sheet([image for _, image in drawn], COLUMNS, meanings=("truth", "predicted"))
    for logger in loggers:
        logger.log_metrics({f"final/{part}/{k}": v for part, found in rows.items() for k, v in found.items()}, step=0)
        if isinstance(logger, TensorBoardLogger):
            for i, (_, image) in enumerate(drawn):
                logger.experiment.add_image(f"test/{i}", np.asarray(image), 0, dataformats="HWC")
        logger.save()
    title = f"{cfg.task_name}: {type(detector.learner).__name__}, labels of images alone"
    _write(folder, cfg, title, mean_history(detector.history_), detection_table(rows, test.items.classes), drawn, sheet)


def _write(
    folder: Path,
    cfg: DictConfig,
    title: str,
    history: list[dict[str, float]],
    table: Table,
    drawn: Drawn,
    sheet: Image.Image,
    learned: Drawn = (),
) -> None:
    """Images and the report into the run folder; table and places to the log."""
    names, board = SafeNames(".png"), f"tensorboard --logdir {folder}"
    for caption, image in drawn:
        write_atomically(folder / "images" / names.path(caption.split(":")[0]), png(image))
    write_atomically(folder / "images" / "all.png", png(sheet))
    if cfg.extras.report:
        images = [*learned, *drawn]
        write_report(folder / "report.html", title, settings_of(cfg), history, table, images, [command_line(), board])
    log.info("\n%s\n\nrun folder  %s", table.text(), folder)
    for name, place in (("report", "report.html"), ("images", "images/all.png"), ("checkpoint", "checkpoints/last.ckpt")):
        if (folder / place).exists():
            log.info("%-11s %s", name, folder / place)
    log.info("curves      %s", board)


def result_rows(module: LatentModule, measures: dict[str, float]) -> list[dict[str, object]]:
    """A row for each of the training, validation and test part."""
    found = {"test": {k.removeprefix("test/"): v for k, v in measures.items()}} if measures else {}
    for part, samples in (("validation", module.data.val), ("training", module.data.train)):
        if samples is not None:
            found[part] = module.measure(samples)
    rows: list[dict[str, object]] = []
    for part in ("training", "validation", "test"):
        if part in found:
            rows.append({"part": part} | {NAMES[k]: found[part][k] for k in NAMES if k in found[part]})
    return rows


def measures_table(rows: list[dict[str, object]]) -> Table:
    """A row per part of the data, its measures in percent.

    >>> measures_table([{"part": "test", "loss": 0.365}]).cells
    [['test', '36.5 %']]
    """
    return results_table(rows, percent={name for row in rows for name in row} - {"part"})


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
    groups = ("method.", "loss.", "data.", "features.", "proposals.", "solver.", "seed")
    chosen = {k: v for k, v in settings.items() if k.startswith(groups)}
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(chosen, {f"final/{k}": v for k, v in measures.items()})
            logger.save()


def detection_table(rows: dict[str, dict[str, float]], classes: list[str]) -> Table:
    """A row per part of the data, its measures in percent, the average precision of each class last.

    >>> detection_table({"test": {"ap": 0.5, "ap/cat": 0.5}}, ["cat"]).heads
    ['part', 'AP', 'AP cat']
    """
    columns = DETECTION_NAMES | {f"ap/{name}": f"AP {name}" for name in classes}
    shown: list[dict[str, object]] = [
        {"part": part} | {columns[k]: values[k] for k in columns if k in values} for part, values in rows.items()
    ]
    return measures_table(shown)


def draw_scenes(detector: Detector, scenes: Scenes, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the images with the boxes of their predicted objects, each with its name."""
    index = spread(len(scenes), count)
    items, candidates = scenes.items.subset(index), scenes.candidates.subset(index)
    found = surest(detector.predict(candidates).to("cpu"), SURE)
    return [
        (
            items.names[i],
            draw_scene(items.image(i), found.of_image(i), items.classes, items.truth.of_image(i) if items.truth else None, size=size),
        )
        for i in range(len(items))
    ]


def surest(found: LabelledBoxes, min_score: float) -> LabelledBoxes:
    """The boxes whose score is above `min_score`, best first.

    >>> surest(LabelledBoxes([0, 0], [0, 1], [[0, 0, 1, 1]] * 2, score=[-1.0, 2.0]), 0.0).label
    tensor([1])
    """
    assert found.score is not None
    order = found.score.argsort(descending=True, stable=True)
    return found[order[found.score[order] > min_score]]


def mean_history(histories: dict[int, list[dict[str, float]]]) -> list[dict[str, float]]:
    """One row per iteration: the means over the classes, of which those that have ended keep their last row.

    >>> mean_history({0: [{"iteration": 1, "objective": 2.0}], 1: [{"iteration": 1, "objective": 4.0}, {"iteration": 2, "objective": 3.0}]})
    [{'iteration': 1, 'objective': 3.0}, {'iteration': 2, 'objective': 2.5}]
    """
    rows = []
    for t in range(max(map(len, histories.values()))):
        here = [history[min(t, len(history) - 1)] for history in histories.values()]
        shared = [name for name in here[0] if name != "iteration" and all(name in row for row in here)]
        rows.append({"iteration": t + 1} | {name: sum(row[name] for row in here) / len(here) for name in shared})
    return rows


def draw_class(detector: Detector, scenes: Scenes, k: int, size: int = 256) -> Image.Image:
    """The best box of class k in some of the images that are labelled with it."""
    shown = (scenes.items.labels[:, k] == 1).nonzero().flatten()
    index = shown[spread(len(shown), PER_CLASS)]
    items, truth = scenes.items.subset(index), scenes.items.truth
    found = detector.locate(scenes.candidates.subset(index), items.labels).to("cpu").of_label(k)
    right = [None if truth is None else truth.of_label(k).of_image(i) for i in index.tolist()]
    drawn = [draw_scene(items.image(i), found.of_image(i), items.classes, right[i], size=size) for i in range(len(items))]
    return contact_sheet(drawn, COLUMNS, meanings=("truth", "predicted"))


def log_class(loggers: list[Any], detector: Detector, train: Scenes, k: int) -> None:
    """How the training of class k went, and what it finds, to the loggers."""
    name = train.items.classes[k]
    for logger in loggers:
        for row in detector.history_[k]:
            logger.log_metrics(
                {f"train/{key}/{name}": float(v) for key, v in row.items() if key != "iteration"}, step=int(row["iteration"])
            )
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_image(f"train/{name}", np.asarray(draw_class(detector, train, k)), k, dataformats="HWC")
            logger.save()
