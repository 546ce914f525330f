"""One training of a detector from a composed configuration: what scripts/train.py does where `detection` is set."""

from __future__ import annotations

import io
import json
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

from lvmdc.detection import Detector, measure, save_coco, told_candidates
from lvmdc.learners import LatentLearner, Supervised
from lvmdc.reporting.files import write_atomically
from lvmdc.training.detect_finish import finish_detection, log_class
from lvmdc.training.detection_data import DetectionData, Scenes
from lvmdc.training.detector_file import DETECTOR_KEY, read_detector
from lvmdc.training.record import write_record

log = logging.getLogger(__name__)


def detect(cfg: DictConfig) -> dict[str, float]:
    """Learn, measure on both parts, leave tables, pictures and pseudo-labels behind; the measures."""
    folder = Path(cfg.paths.output_dir)
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ValueError(f"{min(missing)} must be given: {min(missing)}=…")
    if "scenes" not in cfg.data:
        raise ValueError("detection=weak needs pictures with several labels each: data=digit_scenes, voc_detection or coco_scenes")
    check_one_process(cfg.trainer)
    if cfg.extras.threads:
        torch.set_num_threads(cfg.extras.threads)
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    detector = make_detector(cfg)
    done = None if cfg.ckpt_path is None else read_detector(cfg.ckpt_path)
    data: DetectionData = instantiate(cfg.data, _convert_="all")
    if done is not None:
        done.check_fits(data.classes)
    source = str(cfg.data.scenes._target_).rpartition(".")[2]
    where = "embedded data, made from a seed" if source == "digit_scenes" else "data on disk"
    log.info("%s (%s): %d pictures of %d classes, fold %d", source, where, len(data.scenes), len(data.classes), data.fold)
    log.info("%s for each class, from the labels of pictures", detector.learner)
    train, test = data.setup()
    write_record(folder)
    loggers = [instantiate(part, _convert_="all") for part in (cfg.logger or {}).values() if part is not None]
    learn(detector, train, folder / "checkpoints" / "last.ckpt", cfg, data.classes, None if done is None else done.learned, loggers)
    parts = {"training": train, "test": test}
    rows = {part: measure(detector, s.candidates, s.items, cfg.detection.iou, cfg.detection.coco) for part, s in parts.items()}
    if cfg.detection.bound and train.items.truth is not None:
        bound = supervised_bound(detector, train)
        told = {part: measure(bound, s.candidates, s.items, cfg.detection.iou, cfg.detection.coco) for part, s in parts.items()}
        rows |= {f"{part}, places told": values for part, values in told.items()}
    labels = save_coco(folder / "pseudo_labels.json", train.items, detector.locate(train.candidates, train.items.labels).to("cpu"))
    measures = {
        f"{part.replace('training', 'train').replace(', places told', '_told')}/{k}": v
        for part, found in rows.items()
        for k, v in found.items()
    }
    write_atomically(folder / "results.json", json.dumps(measures, indent=2).encode())
    finish_detection(detector, test, rows, folder, cfg, loggers)
    log.info("%-11s %s", "boxes found in the training part, as COCO annotations", labels)
    return measures


def check_one_process(trainer: DictConfig) -> None:
    """Refuse several ranks, whether the configuration or torchrun asks for them.

    >>> check_one_process(OmegaConf.create({"devices": 1}))
    """
    devices = trainer.get("devices", 1)
    if "strategy" in trainer or (isinstance(devices, int) and devices != 1) or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("detection=weak learns one class after the other in one process, but trainer= or torchrun asks for several ranks")


def make_detector(cfg: DictConfig) -> Detector:
    """The detector with the configured learner, every setting checked."""
    learner: LatentLearner = instantiate(cfg.method, _convert_="all")
    if isinstance(learner, Supervised):
        raise ValueError("method=supervised needs to be told where objects are; detection.bound=true trains that beside another method")
    learner.check_parameters()
    if cfg.solver._target_ != "lvmdc.training.ExactModule":
        raise ValueError("a detector of several classes is learned exactly: use solver=exact")
    return instantiate(cfg.detection.detector, _partial_=True, _convert_="all")(learner=learner)


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
                log_class(loggers, classes[k], detector.history_[k])
                content = io.BytesIO()
                torch.save({DETECTOR_KEY: {"config": config, "classes": classes, "learned": detector.state_dict()}}, content)
                write_atomically(path, content.getvalue())


def supervised_bound(detector: Detector, train: Scenes) -> Detector:
    """The same detector, told in which candidate the largest object of each class is: what labels alone are measured by."""
    assert train.items.truth is not None
    told: Detector = clone(detector)
    assert told.learner is not None
    told.learner.set_params(n_init=1)
    told.set_params(verbose=False)
    return told.fit(train.candidates, train.items.labels, told_candidates(train.candidates, train.items.truth, len(train.items.classes)))
