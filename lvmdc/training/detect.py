"""One training of a detector from a composed configuration: what scripts/train.py does where `detection` is set."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from sklearn.base import clone
from tqdm import tqdm

from lvmdc.detection import Detector, measure, pseudo_labels, save_coco, told_objects, unlearned
from lvmdc.learners import LatentLearner, Supervised
from lvmdc.reporting.files import write_measures
from lvmdc.training.checkpoint import write_content
from lvmdc.training.detect_finish import finish_detection, log_class
from lvmdc.training.detection_data import DetectionData, Scenes
from lvmdc.training.detector_file import DETECTOR_KEY, read_detector
from lvmdc.training.record import write_record

log = logging.getLogger(__name__)
# The rows of the table, as the measures are called.
KEYS = {"training": "train", "test": "test", "training, places told": "train_told", "test, places told": "test_told"}
KEYS |= {"test, most central candidate": "test_central", "test, random candidate": "test_random"}


def detect(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on both parts, leave tables, pictures and pseudo-labels behind; the measures."""
    folder = Path(cfg.paths.output_dir)
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    if "scenes" not in cfg.data:
        raise ValueError("detection=weak needs pictures with several labels each: data=digit_scenes, voc_detection or coco_scenes")
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
    log.info("%s (%s): %d pictures of %d classes, fold %d", source, where, len(data.scenes), len(data.classes), data.fold)
    log.info("%s for each class, from the labels of pictures", detector.learner)
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
    if cfg.solver._target_ != "lvmdc.training.ExactModule":
        raise ValueError("a detector of several classes is learned exactly: use solver=exact")
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
        part, picture, h = told_objects(candidates, truth, k)
        places = torch.full((len(picture), told.n_classes_), -1, device=h.device)
        places[:, k] = h
        told.fit_class(part, labels[picture.cpu()], k, places)
    return told
