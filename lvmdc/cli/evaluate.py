"""What scripts/eval.py and scripts/predict.py do with a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from omegaconf import DictConfig
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.cli.report import NAMES, detection_table, measures_table, surest
from lvmdc.lightning.checkpoint import merged, read_checkpoint
from lvmdc.lightning.detection_data import DetectionData
from lvmdc.lightning.detector_file import is_detector, read_detector
from lvmdc.reporting import Detection, Prediction, save_predictions
from lvmdc.reporting.predictions import SceneRecord, save_scenes
from lvmdc.storage.files import write_measures
from lvmdc.vision.datasets.images import ImageSet, Sources
from lvmdc.vision.datasets.reading import SUFFIXES
from lvmdc.vision.detection import measure
from lvmdc.vision.features import Features
from lvmdc.vision.proposals import Proposals

# What scripts/eval.py and scripts/predict.py do with the checkpoint of a detector.

log = logging.getLogger(__name__)


def evaluate_detector(cfg: DictConfig) -> dict[str, float]:
    """Measure a detector on the test part of its data: a table, and results.json in the run folder."""
    file = read_detector(cfg.ckpt_path)
    detector = file.detector()
    data: DetectionData = file.data_part(DetectionData, list(cfg.overrides), cfg.paths.cache_dir)
    with file.named_errors():
        settings = merged(file.config, list(cfg.overrides))["detection"]
        iou, coco = float(settings["iou"]), bool(settings["coco"])
    _, test = data.setup()
    measures = measure(detector, test.candidates, test.items, iou, coco)
    path = Path(cfg.paths.output_dir) / "results.json"
    write_measures(path, measures)
    log.info("%s\n\n%s\n\nresults  %s", cfg.ckpt_path, detection_table({"test": measures}, file.classes).text(), path)
    return measures


def predict_scenes(cfg: DictConfig, files: list[Path]) -> Path:
    """All objects in anyone's images, with scores: predictions.json and drawings."""
    file = read_detector(cfg.ckpt_path)
    detector = file.detector()
    proposals, features = file.part("proposals", Proposals), file.part("features", Features)
    base = Path(cfg.input) if Path(cfg.input).is_dir() else Path(cfg.input).parent
    names = [path.relative_to(base).as_posix() for path in files]
    images = Sources(files, file.classes, names)

    def records() -> Iterator[SceneRecord]:
        for i in tqdm(range(len(images)), desc="images", unit="image"):
            image = images.image(i)
            boxes = proposals.boxes(image, names[i])
            candidates = Candidates(features.describe_named(image, names[i], boxes), [len(boxes)], boxes)
            yield SceneRecord(names[i], surest(detector.predict(candidates), cfg.min_score), image)

    path = save_scenes(Path(cfg.output or cfg.paths.output_dir), records(), file.classes)
    log.info("%d images\npredictions  %s", len(files), path)
    return path


def evaluate_checkpoint(cfg: DictConfig) -> dict[str, float]:
    """Measure a checkpoint on the test part of its data: a table, and results.json in the run folder."""
    if is_detector(cfg.ckpt_path):
        return evaluate_detector(cfg)
    checkpoint = read_checkpoint(cfg.ckpt_path)
    model = checkpoint.model()
    data = checkpoint.data(list(cfg.overrides), cfg.paths.cache_dir)
    data.setup("test")
    assert data.test is not None
    measures = model.measure(data.test)
    row: dict[str, object] = {"part": "test"} | {NAMES[k]: measures[k] for k in NAMES if k in measures}
    path = Path(cfg.paths.output_dir) / "results.json"
    write_measures(path, measures)
    log.info("%s\n\n%s\n\nresults  %s", cfg.ckpt_path, measures_table([row]).text(), path)
    return measures


def predict_images(cfg: DictConfig) -> Path:
    """Classes and boxes for a folder of anyone's images: predictions.json and drawings."""
    if is_detector(cfg.ckpt_path):
        return predict_scenes(cfg, find_images(Path(cfg.input)))
    checkpoint = read_checkpoint(cfg.ckpt_path)
    model = checkpoint.model()
    files = find_images(Path(cfg.input))
    config = checkpoint.config
    with checkpoint.named_errors():
        imaged, partial = not config["data"].get("samples"), (config["proposals"] or {}).get("_partial_")
        mapped = config["data"].get("kernel_map")
    if not imaged:
        raise ValueError(f"ckpt_path: {checkpoint.path} was learned from data that are not images, and cannot predict images")
    if partial:
        raise ValueError(f"ckpt_path: {checkpoint.path} was learned with boxes that only its own data set knows, and cannot propose others")
    if mapped:
        raise ValueError(f"ckpt_path: {checkpoint.path} has a kernel map that was fitted on its own data, and cannot predict other images")
    proposals, features = checkpoint.part("proposals", Proposals), model.describer(checkpoint.part("features", Features))
    base = Path(cfg.input) if Path(cfg.input).is_dir() else Path(cfg.input).parent
    names = [path.relative_to(base).as_posix() for path in files]
    images = ImageSet(files, checkpoint.classes, torch.zeros(len(files), dtype=torch.long), names=names)

    def predictions() -> Iterator[Prediction]:
        for i in tqdm(range(len(images)), desc="images", unit="image"):
            image = images.image(i)
            boxes = proposals.boxes(image, names[i])
            candidates = Candidates(features.describe_named(image, names[i], boxes), [len(boxes)], boxes)
            y, h, score = model.prediction(candidates).top_k(candidates, max(1, cfg.top_k))
            found = [
                Detection(checkpoint.classes[int(k)], float(s), boxes[int(c)])
                for k, c, s in zip(y[0], h[0], score[0], strict=True)
                if k >= 0
            ]
            yield Prediction(names[i], found[0], found[1:], image)

    folder = Path(cfg.output or cfg.paths.output_dir)
    path = save_predictions(folder, predictions())
    log.info("%d images\npredictions  %s", len(files), path)
    return path


def find_images(path: Path) -> list[Path]:
    """The images of a folder and its sub-folders, or the one image that `path` is."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"input: {path} does not exist")
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not files:
        raise ValueError(f"input: {path} holds no image ({', '.join(SUFFIXES)})")
    return files
