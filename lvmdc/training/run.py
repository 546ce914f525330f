"""One training from a composed configuration: the work of scripts/train.py."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from lvmdc.learners import LatentLearner
from lvmdc.training.callbacks import ResumeHint
from lvmdc.training.checkpoint import check_fits, read_checkpoint
from lvmdc.training.data import LatentDataModule
from lvmdc.training.finish import finish
from lvmdc.training.module import LatentModule
from lvmdc.training.record import command_line, write_record

log = logging.getLogger(__name__)


def train(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on the test part, leave tables and pictures behind; the test measures, for sweeps to compare."""
    folder = Path(cfg.paths.output_dir)
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    for name in ("pytorch_lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)  # hardware and advertisements
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
    if cfg.extras.threads:
        torch.set_num_threads(cfg.extras.threads)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    checkpoint = None if cfg.ckpt_path is None else read_checkpoint(cfg.ckpt_path)
    check_networks(cfg)
    learner: LatentLearner = instantiate(cfg.method, _convert_="all")
    learner.check_parameters()  # before any work
    data: LatentDataModule = instantiate(cfg.data, _convert_="all")
    if data.samples is not None:
        data.samples.check_joint(learner.joint)
    if checkpoint is not None:
        check_fits(checkpoint, data.classes)
    log.info("%s", describe(data, cfg))
    log.info("%s, %s", learner, cfg.solver._target_.rpartition(".")[2])
    module: LatentModule = instantiate(cfg.solver, _partial_=True, _convert_="all")(learner=learner, config=config)
    if not cfg.train:
        if checkpoint is None:
            raise ValueError("train=false needs something that was learned before: ckpt_path=…")
        module.load_learned(checkpoint.learned)
    write_record(folder)
    trainer = make_trainer(cfg, validate=data.val_fraction > 0)
    if cfg.train:
        # weights_only: a checkpoint from elsewhere must run no code.
        trainer.fit(module, datamodule=data, ckpt_path=cfg.ckpt_path, weights_only=True)
    measures: dict[str, float] = {}
    if cfg.test:
        measures = {k: float(v) for k, v in trainer.test(module, datamodule=data, verbose=False)[0].items()}
    finish(trainer, module, measures, folder, cfg)
    return measures


def check_networks(cfg: DictConfig) -> None:
    """Refuse a network that the solver would not see."""
    for name in ("prediction", "conditional"):
        if cfg.get(name) and name not in cfg.solver:
            raise ValueError(f"{name}= asks for a network, which only solver=stochastic learns, but the solver is {cfg.solver._target_}")


def make_trainer(cfg: DictConfig, validate: bool) -> pl.Trainer:
    """The trainer with the configured callbacks and loggers."""
    chosen = {name: part for name, part in (cfg.callbacks or {}).items() if part is not None}
    if not cfg.extras.progress:
        chosen.pop("progress", None)
    callbacks = [instantiate(part, _convert_="all") for part in chosen.values()]
    callbacks.append(ResumeHint(command_line(without="ckpt_path=")))
    loggers = [instantiate(part, _convert_="all") for part in (cfg.logger or {}).values() if part is not None]
    parts: dict[str, Any] = {"callbacks": callbacks, "logger": loggers or False, "enable_progress_bar": "progress" in chosen}
    if not validate:
        parts["limit_val_batches"] = 0
    return instantiate(cfg.trainer, _convert_="all", _partial_=True)(**parts)


def describe(data: LatentDataModule, cfg: DictConfig) -> str:
    """What is learned from, in a line; whether it is embedded is said."""
    kind = "pictures" if data.samples is None else "samples"
    source = str(cfg.data[kind]._target_).rpartition(".")[2]
    embedded = source in ("cluttered_digits", "stick_actions", "planted_motifs", "rotated_digits")
    where = "embedded data, made from a seed" if embedded else "data on disk"
    return f"{source} ({where}): {len(data.items)} {kind} of {len(data.classes)} classes, fold {data.fold}"
