"""The end of a run: a table, pictures, the report page, hyperparameters for TensorBoard, and where all of it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import TensorBoardLogger

from lvmdc.reporting import Table, contact_sheet, results_table, write_report
from lvmdc.reporting.files import SafeNames, write_atomically, write_measures
from lvmdc.reporting.page import png
from lvmdc.training.module import LatentModule
from lvmdc.training.pictures import draw_learned, draw_samples
from lvmdc.training.record import command_line

log = logging.getLogger(__name__)
SHOWN = 24  # pictures of the test part in the report
SHEET = 1024  # pixels across that all of them take on one sheet: four of the usual size
NAMES = {"loss": "loss", "error": "class error", "corloc": "CorLoc", "overlap": "mean overlap", "latent_error": "latent error"}


def finish(trainer: pl.Trainer, module: LatentModule, measures: dict[str, float], folder: Path, cfg: DictConfig) -> None:
    """Say and show how it went."""
    if not module.history():
        return
    rows = result_rows(module, measures)  # of all ranks
    if not trainer.is_global_zero:
        return
    table = measures_table(rows)
    settings = flat(OmegaConf.to_container(cfg, resolve=True))
    pictures = _draw(module, folder / "pictures")
    log_hyperparameters(trainer, settings, measures)
    board = f"tensorboard --logdir {folder}"
    write_measures(folder / "results.json", measures | {"objective": module.history()[-1]["objective"]})
    if cfg.extras.report:
        title = f"{cfg.task_name}: {type(module.learner).__name__}"
        write_report(folder / "report.html", title, settings, module.history(), table, pictures, [command_line(), board])
    log.info("\n%s\n", table.text())
    log.info("objective %.4f after %d iterations", module.history()[-1]["objective"], len(module.history()))
    log.info("run folder  %s", folder)
    for name, place in (("report", "report.html"), ("pictures", "pictures"), ("checkpoint", "checkpoints/last.ckpt")):
        if (folder / place).exists():
            log.info("%-11s %s", name, folder / place)
    log.info("curves      %s", board)


def result_rows(module: LatentModule, measures: dict[str, float]) -> list[dict[str, object]]:
    """A row each for the training, validation and test part."""
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
    """Parts of the data below each other, their measures in percent.

    >>> print(measures_table([{"part": "test", "loss": 0.365}]).text())
    part    loss
    ----  ------
    test  36.5 %
    """
    return results_table(rows, percent={name for row in rows for name in row} - {"part"})


def flat(config: Any, prefix: str = "") -> dict[str, str]:
    """Settings by dotted name.

    >>> flat({"method": {"C": 1.0}, "seed": 0})
    {'method.C': '1.0', 'seed': '0'}
    """
    if not isinstance(config, dict):
        return {prefix.rstrip("."): str(config)}
    return {name: text for key, value in config.items() for name, text in flat(value, f"{prefix}{key}.").items()}


def log_hyperparameters(trainer: pl.Trainer, settings: dict[str, str], measures: dict[str, float]) -> None:
    """Settings beside the final measures, so that TensorBoard compares runs."""
    groups = ("method.", "loss.", "data.", "features.", "proposals.", "solver.", "seed")
    chosen = {k: v for k, v in settings.items() if k.startswith(groups)}
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(chosen, {f"final/{k}": v for k, v in measures.items()})
            logger.save()


def _draw(module: LatentModule, folder: Path) -> list[tuple[str, Any]]:
    test, train = module.data.test, module.data.train
    assert test is not None
    assert train is not None
    learned, drawn = draw_learned(module, train), draw_samples(module, test, SHOWN)
    names = SafeNames(".png")
    for caption, image in drawn:
        write_atomically(folder / names.path(caption.split(":")[0]), png(image))
    columns = max(1, SHEET // max(image.width for _, image in drawn))
    write_atomically(folder / "all.png", png(contact_sheet([image for _, image in drawn], columns)))
    if learned:
        write_atomically(folder / "learned.png", png(contact_sheet([image for _, image in learned], 1, legend=False)))
    return learned + drawn
