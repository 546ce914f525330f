"""What scripts/eval.py and scripts/predict.py do with the checkpoint of a detector."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.data.sources import Sources
from lvmdc.detection import measure
from lvmdc.features import Features
from lvmdc.proposals import Proposals
from lvmdc.reporting.files import write_measures
from lvmdc.reporting.scene_files import SceneRecord, save_scenes
from lvmdc.training.checkpoint import merged
from lvmdc.training.detect_finish import measures_table, surest
from lvmdc.training.detection_data import DetectionData
from lvmdc.training.detector_file import read_detector

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
    log.info("%s\n\n%s\n\nresults  %s", cfg.ckpt_path, measures_table({"test": measures}, file.classes).text(), path)
    return measures


def predict_scenes(cfg: DictConfig, files: list[Path]) -> Path:
    """All objects in anyone's pictures, with scores: predictions.json and drawings."""
    file = read_detector(cfg.ckpt_path)
    detector = file.detector()
    proposals, features = file.part("proposals", Proposals), file.part("features", Features)
    base = Path(cfg.input) if Path(cfg.input).is_dir() else Path(cfg.input).parent
    names = [path.relative_to(base).as_posix() for path in files]
    pictures = Sources(files, file.classes, names)

    def records() -> Iterator[SceneRecord]:
        for i in tqdm(range(len(pictures)), desc="pictures", unit="picture"):
            image = pictures.image(i)
            boxes = proposals.boxes(image, names[i])
            candidates = Candidates(features.describe_named(image, names[i], boxes), [len(boxes)], boxes)
            yield SceneRecord(names[i], surest(detector.predict(candidates), cfg.min_score), image)

    path = save_scenes(Path(cfg.output or cfg.paths.output_dir), records(), file.classes)
    log.info("%d pictures\npredictions  %s", len(files), path)
    return path
