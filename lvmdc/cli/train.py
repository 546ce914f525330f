"""One training from a composed configuration: what scripts/train.py does."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from sklearn.base import clone
from tqdm import tqdm

from lvmdc.cli.report import finish, finish_detection, log_class
from lvmdc.learners import LatentLearner, Supervised
from lvmdc.lightning.callbacks import ResumeHint
from lvmdc.lightning.checkpoint import AtomicCheckpointIO, Checkpoint, read_checkpoint, write_content
from lvmdc.lightning.data import LatentDataModule
from lvmdc.lightning.detection_data import DetectionData, Scenes
from lvmdc.lightning.detector_file import DETECTOR_KEY, read_detector
from lvmdc.lightning.module import LatentModule
from lvmdc.lightning.ranks import LostRankError, is_lost, this_rank
from lvmdc.reporting.record import command_line, write_record
from lvmdc.storage.atomic import write_measures
from lvmdc.vision.detection import Detector, ground_truth_objects, measure, pseudo_labels, save_coco, unlearned

# One training from a composed configuration: the work of scripts/train.py.

log = logging.getLogger(__name__)
FOR_RANKS = ("hydra.run.dir=", "hydra.job.name=", "hydra.output_subdir=")  # words that Lightning adds when it starts a rank


def train(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on the test part, leave tables and images behind; the test measures, for sweeps to compare."""
    folder = Path(cfg.paths.output_dir)
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    if "scenes" in cfg.data:
        raise ValueError("these images have several labels each: use detection=weak with them")
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)  # hardware and advertisements
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
    # Every rank measures its own part, and what it logs is of all ranks already.
    warnings.filterwarnings("ignore", message="(?i).*it is recommended to use .*(devices=1|sync_dist).*")
    warnings.filterwarnings("ignore", message=".*in eval mode at the start of training.*")  # a network's norms stay as they were trained
    if cfg.extras.threads:
        torch.set_num_threads(cfg.extras.threads)
    if this_rank() > 0:
        logging.getLogger("lvmdc").setLevel(logging.WARNING)  # the first one says it all
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    checkpoint = None if cfg.ckpt_path is None else read_checkpoint(cfg.ckpt_path)
    check_networks(cfg)
    learner: LatentLearner = instantiate(cfg.method, _convert_="all")
    learner.check_parameters()  # before any work
    data: LatentDataModule = instantiate(cfg.data, _convert_="all")
    if data.samples is not None:
        data.samples.check_joint(learner.joint)
    if checkpoint is not None:
        checkpoint.check_fits(data.classes)
    log.info("%s", describe(data, cfg))
    log.info("%s, %s", learner, cfg.module._target_.rpartition(".")[2])
    module: LatentModule = instantiate(cfg.module, _partial_=True, _convert_="all")(learner=learner, config=config)
    if not cfg.train:
        if checkpoint is None:
            raise ValueError("train=false needs something that was learned before: ckpt_path=…")
        module.load_learned(checkpoint.learned)
    trainer = make_trainer(cfg, validate=data.val_fraction > 0)
    if trainer.world_size > 1:
        module.check_over_ranks()
        check_no_sweep(trainer)
    if this_rank() == 0:
        write_record(folder)
    try:
        if cfg.train:
            # weights_only: a checkpoint from elsewhere must run no code.
            with nullcontext() if checkpoint is None else restored(checkpoint, trainer):
                trainer.fit(module, datamodule=data, ckpt_path=cfg.ckpt_path, weights_only=True)
        measures: dict[str, float] = {}
        if cfg.test:
            measures = {k: float(v) for k, v in trainer.test(module, datamodule=data, verbose=False)[0].items()}
        finish(trainer, module, measures, folder, cfg)
    except RuntimeError as error:
        if trainer.world_size > 1 and is_lost(error):
            told = str(error).splitlines()[0]
            raise LostRankError(f"rank {trainer.global_rank} of {trainer.world_size} lost another one: {told}") from error
        raise
    return measures


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
    """Refuse a network that the module would not see."""
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
    return instantiate(cfg.trainer, _convert_="all", _partial_=True)(**parts)


def describe(data: LatentDataModule, cfg: DictConfig) -> str:
    """What is learned from, in a line; whether it is embedded is said."""
    kind = "images" if data.samples is None else "samples"
    source = str(cfg.data[kind]._target_).rpartition(".")[2]
    embedded = source in ("cluttered_digits", "stick_actions", "planted_motifs", "rotated_digits")
    where = "embedded data, made from a seed" if embedded else "data on disk"
    return f"{source} ({where}): {len(data.items)} {kind} of {len(data.classes)} classes, fold {data.fold}"


# One training of a detector from a composed configuration: what scripts/train.py does where `detection` is set.

# The rows of the table, as the measures are called.
KEYS = {"training": "train", "test": "test", "training, places told": "train_told", "test, places told": "test_told"}
KEYS |= {"test, most central candidate": "test_central", "test, random candidate": "test_random"}


def detect(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on both parts, leave tables, images and pseudo-labels behind; the measures."""
    folder = Path(cfg.paths.output_dir)
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    if "scenes" not in cfg.data:
        raise ValueError("detection=weak needs images with several labels each: data=digit_scenes, voc_detection or coco_scenes")
    if cfg.extras.threads:
        torch.set_num_threads(cfg.extras.threads)
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    detector, device = make_detector(cfg), one_device(cfg)
    done = None if cfg.ckpt_path is None else read_detector(cfg.ckpt_path)
    data: DetectionData = instantiate(cfg.data, _convert_="all")
    if done is not None:
        done.check_fits(data.classes)
        with done.named_errors():
            done.check_learned()
    source = str(cfg.data.scenes._target_).rpartition(".")[2]
    where = "embedded data, made from a seed" if source == "digit_scenes" else "data on disk"
    log.info("%s (%s): %d images of %d classes, fold %d", source, where, len(data.scenes), len(data.classes), data.fold)
    log.info("%s for each class, from the labels of images", detector.learner)
    train, test = (part.to(device) for part in data.setup())
    write_record(folder)
    loggers = [instantiate(part, _convert_="all") for part in (cfg.logger or {}).values() if part is not None]
    learn(detector, train, folder / "checkpoints" / "last.ckpt", cfg, data.classes, None if done is None else done.learned, loggers)
    parts = {"training": train, "test": test}
    rows = {part: measure(detector, s.candidates, s.items, cfg.detection.iou, cfg.detection.coco) for part, s in parts.items()}
    if cfg.detection.bound and train.items.truth is not None:
        bound = supervised_bound(detector, train)
        told = {part: measure(bound, s.candidates, s.items, cfg.detection.iou, cfg.detection.coco) for part, s in parts.items()}
        rows |= {f"{part}, places told": values for part, values in told.items()}
    guessed = unlearned(test.candidates, test.items, cfg.detection.iou)
    rows |= {f"test, {kind} candidate": {"corloc": corloc} for kind, corloc in guessed.items()}
    boxes = pseudo_labels(detector, train.candidates, train.items.labels, cfg.detection.pseudo_score)
    labels = save_coco(folder / "pseudo_labels.json", train.items, boxes.to("cpu"))
    measures = {f"{KEYS[part]}/{k}": v for part, found in rows.items() for k, v in found.items()}
    write_measures(folder / "results.json", measures)
    finish_detection(detector, test, rows, folder, cfg, loggers)
    log.info("%-11s %s", "boxes found in the training part, as COCO annotations", labels)
    return measures


def make_detector(cfg: DictConfig) -> Detector:
    """The detector with the configured learner, every setting checked."""
    learner: LatentLearner = instantiate(cfg.method, _convert_="all")
    if isinstance(learner, Supervised):
        raise ValueError("method=supervised needs to be told where objects are; detection.bound=true trains that beside another method")
    learner.check_parameters()
    if cfg.module._target_ != "lvmdc.lightning.ExactModule":
        raise ValueError("a detector of several classes is learned exactly: use module=exact")
    least = cfg.detection.pseudo_score
    if least is not None and not 0 <= least <= 1:
        raise ValueError(f"detection.pseudo_score must be a probability, or null, but it is {least}")
    return instantiate(cfg.detection.detector, _partial_=True, _convert_="all")(learner=learner)


def one_device(cfg: DictConfig) -> torch.device:
    """Where the trainer's configuration says to learn; several of them are refused."""
    trainer: pl.Trainer = instantiate(cfg.trainer, _convert_="all", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    ranks = max(trainer.world_size, int(os.environ.get("WORLD_SIZE", "1")))  # of torchrun
    if ranks > 1:
        raise ValueError(f"a detector learns on one device, but the trainer, or torchrun, asks for {ranks}: use trainer=cpu or trainer=gpu")
    return trainer.strategy.root_device


def learn(
    detector: Detector, train: Scenes, path: Path, cfg: DictConfig, classes: list[str], learned: dict[str, Any] | None, loggers: list[Any]
) -> None:
    """One class after the other, with a checkpoint after each: a killed run loses at most one class."""
    labels = train.items.labels
    detector.begin(train.candidates, labels)
    if learned is not None:
        detector.load_state_dict(learned)
    config = OmegaConf.to_container(cfg, resolve=True)
    with tqdm(range(len(classes)), desc="classes", unit="class", disable=not cfg.extras.progress) as bar:
        for k in bar:
            if k not in detector.history_:
                bar.set_postfix_str(classes[k])
                detector.fit_class(train.candidates, labels, k)
                log_class(loggers, detector, train, k)
                write_content(path, {DETECTOR_KEY: {"config": config, "classes": classes, "learned": detector.state_dict()}})


def supervised_bound(detector: Detector, train: Scenes) -> Detector:
    """The same detector, told in which candidate each object is: what labels alone are measured by."""
    candidates, labels, truth = train.candidates, train.items.labels, train.items.truth
    assert truth is not None
    told: Detector = clone(detector)
    assert told.learner is not None
    told.learner.set_params(init="uniform", n_init=1)
    # Precision and CorLoc order the boxes of one class: scores need not be probabilities for it, but all of them must be there.
    told.set_params(start="learner", calibration=0, min_score=0.0)
    told.begin(candidates, labels)
    for k in range(told.n_classes_):
        part, image, h = ground_truth_objects(candidates, truth, k)
        places = torch.full((len(image), told.n_classes_), -1, device=h.device)
        places[:, k] = h
        told.fit_class(part, labels[image.cpu()], k, places)
    return told
