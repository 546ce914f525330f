"""Train from a configuration: data, learner and module are built, Lightning fits, and the report says how it went."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from lvmdc.cli import errors
from lvmdc.cli.config import checked
from lvmdc.cli.report import finish, supervision
from lvmdc.learners import LatentLearner
from lvmdc.lightning.callbacks import ResumeHint
from lvmdc.lightning.checkpoint import AtomicCheckpointIO, Checkpoint, read_checkpoint
from lvmdc.lightning.data import LatentDataModule
from lvmdc.lightning.detector import DetectorModule
from lvmdc.lightning.module import CHECKPOINT_KEY, LatentModule
from lvmdc.lightning.ranks import LostRankError, is_lost, this_rank
from lvmdc.reporting.record import command_line, write_record

log = logging.getLogger(__name__)
FOR_RANKS = ("hydra.run.dir=", "hydra.job.name=", "hydra.output_subdir=")  # words that Lightning adds when it starts a rank
EMBEDDED = ("cluttered_digits", "digit_scenes", "stick_actions", "planted_motifs", "rotated_digits")
SCORES = ("test/loss", "test/error")  # what a sweep minimises


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc train`, and scripts/train.py. Classes of the user's are found in the current folder, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    errors.run("train", score, words)


def score(cfg: DictConfig) -> float | None:
    """Train; the number that a sweep compares, the lower the better."""
    measures = train(cfg)
    if "test/ap" in measures:
        return 1 - measures["test/ap"]
    return next((measures[name] for name in SCORES if name in measures), None)


def train(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on the test part, leave tables and images behind; the test measures, for sweeps to compare."""
    cfg = checked(cfg)
    quieten()
    if cfg.extras.threads:
        torch.set_num_threads(cfg.extras.threads)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    checkpoint = None if cfg.ckpt_path is None else read_checkpoint(cfg.ckpt_path)
    check_networks(cfg)
    learner: LatentLearner = instantiate(cfg.method, _convert_="all")
    learner.check_parameters()  # before any work
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    module: LatentModule = instantiate(cfg.module, _partial_=True, _convert_="all")(learner=learner, config=config)
    data: LatentDataModule = instantiate(cfg.data, _convert_="all")
    if data.samples is not None:
        data.samples.check_joint(learner.joint)
    module.check_data(data)
    module.classes = data.classes
    if checkpoint is not None:
        checkpoint.check_fits(data.classes)
    log.info("%s", describe(data, cfg))
    log.info("%s, %s", learner, type(module).__name__)
    if isinstance(module, DetectorModule) or bool(data.shown().any()):
        log.info("supervision used: %s", supervision(data))
    if not cfg.train:
        if not data.has_test:
            raise ValueError("train=false measures on the test part, but the data have none; ask for one by data.fraction=0.6")
        if checkpoint is None:
            raise ValueError("train=false needs something that was learned before: add ckpt_path=PATH")
        module.load_learned(checkpoint.learned)
    trainer = make_trainer(cfg, validate=data.val_fraction > 0)
    if trainer.world_size > 1:
        module.check_over_ranks()
        check_no_sweep(trainer)
    folder = Path(cfg.paths.output_dir)
    if this_rank() == 0:
        write_record(folder)
    try:
        if cfg.train:
            fit(trainer, module, data, checkpoint)
        measures: dict[str, float] = {}
        if cfg.test and data.has_test:
            measures = {k: float(v) for k, v in trainer.test(module, datamodule=data, verbose=False)[0].items()}
        finish(trainer, module, measures, folder, cfg)
    except RuntimeError as error:
        if trainer.world_size > 1 and is_lost(error):
            reason = str(error).splitlines()[0]
            raise LostRankError(f"rank {trainer.global_rank} of {trainer.world_size} lost another one: {reason}") from error
        raise
    return measures


def fit(trainer: pl.Trainer, module: LatentModule, data: LatentDataModule, checkpoint: Checkpoint | None) -> None:
    """Learn, or go on from a checkpoint."""
    if checkpoint is None:
        trainer.fit(module, datamodule=data)
        return
    with restored(checkpoint, trainer):
        if checkpoint.resumes:
            # weights_only: a checkpoint from elsewhere must run no code.
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint.path, weights_only=True)
        else:
            module.on_load_checkpoint({CHECKPOINT_KEY: {"learned": checkpoint.learned}})
            trainer.fit(module, datamodule=data)


def quieten() -> None:
    """Silence what is said on every run and needs no action."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)  # hardware and advertisements
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")  # as it should be for a resumed run
    # Every rank measures its own part, and what it logs is of all ranks already.
    warnings.filterwarnings("ignore", message="(?i).*it is recommended to use .*(devices=1|sync_dist).*")
    warnings.filterwarnings("ignore", message=".*in eval mode at the start of training.*")  # a network's norms stay as they were trained
    if this_rank() > 0:
        logging.getLogger("lvmdc").setLevel(logging.WARNING)  # the first one says it all


@contextmanager
def restored(checkpoint: Checkpoint, trainer: pl.Trainer) -> Iterator[None]:
    """Name the checkpoint in errors that arise before the training goes on from it, unless they are sentences already."""
    hint = next(callback for callback in trainer.callbacks if isinstance(callback, ResumeHint))  # type: ignore[attr-defined]
    try:
        yield
    except Exception as error:
        sentence = isinstance(error, OSError) or type(error) is ValueError
        if sentence or hint.started or (trainer.world_size > 1 and is_lost(error)):
            raise
        with checkpoint.named_errors():
            raise


def check_no_sweep(trainer: pl.Trainer) -> None:
    """Refuse a sweep whose runs would start ranks by themselves: each of those would be the whole sweep again."""
    launcher = trainer.strategy.launcher
    external = launcher is None or trainer.strategy.cluster_environment.creates_processes_externally  # type: ignore[attr-defined]
    if not external and HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise ValueError("a sweep (-m) cannot start several ranks for each of its runs; let a launcher do so, such as submitit_slurm")


def check_networks(cfg: DictConfig) -> None:
    """Refuse a network that the module would not use."""
    for name in ("prediction", "conditional"):
        if cfg.get(name) and not cfg.module.get(name):
            module = str(cfg.module._target_).rpartition(".")[2]
            learning = "alternating, soft, end_to_end" + (", sparse" if name == "conditional" else "")
            raise ValueError(f"{name}= asks for a network, which module={learning} can learn, but the module is {module}")


def make_trainer(cfg: DictConfig, validate: bool) -> pl.Trainer:
    """The trainer with the configured callbacks and loggers."""
    chosen = {name: part for name, part in (cfg.callbacks or {}).items() if part is not None}
    if not cfg.extras.progress:
        chosen.pop("progress", None)
    callbacks = [instantiate(part, _convert_="all") for part in chosen.values()]
    callbacks.append(ResumeHint(command_line(without=("ckpt_path=", *FOR_RANKS))))
    loggers = [instantiate(part, _convert_="all") for part in (cfg.logger or {}).values() if part is not None]
    parts: dict[str, Any] = {"callbacks": callbacks, "logger": loggers or False, "enable_progress_bar": "progress" in chosen}
    if not validate:
        parts["limit_val_batches"] = 0
    parts["plugins"] = [AtomicCheckpointIO(), *(instantiate(cfg.trainer.get("plugins") or [], _convert_="all"))]
    make = instantiate(cfg.trainer, _convert_="all", _partial_=True)
    try:
        return make(**parts)
    except (MisconfigurationException, ImportError) as error:  # such as a device that is not here
        raise ValueError(f"trainer: {str(error).splitlines()[0]}") from error


def describe(data: LatentDataModule, cfg: DictConfig) -> str:
    """What is learned from, in a line, and whether it is embedded."""
    kind = "images" if data.samples is None else "samples"
    source = str(cfg.data[kind]._target_).rpartition(".")[2]
    where = "embedded data, made from a seed" if source in EMBEDDED else "data on disk"
    train, test = data.division()
    parts = f"{len(train)} train, {len(test)} test, fold {data.fold}" if len(test) else "all train"
    return f"{source} ({where}): {len(data.items)} {kind} of {len(data.classes)} classes, {parts}"
