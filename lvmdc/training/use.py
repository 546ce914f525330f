"""What scripts/eval.py and scripts/predict.py do with a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from omegaconf import DictConfig
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.data.pictures import PictureSet
from lvmdc.data.reading import SUFFIXES
from lvmdc.features import Features
from lvmdc.proposals import Proposals
from lvmdc.reporting import Detection, Prediction, save_predictions
from lvmdc.reporting.files import write_measures
from lvmdc.training.checkpoint import read_checkpoint
from lvmdc.training.detect_use import evaluate_detector, predict_scenes
from lvmdc.training.detector_file import is_detector
from lvmdc.training.finish import NAMES, measures_table

log = logging.getLogger(__name__)


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


def predict_pictures(cfg: DictConfig) -> Path:
    """Classes and boxes for a folder of anyone's pictures: predictions.json and drawings."""
    if is_detector(cfg.ckpt_path):
        return predict_scenes(cfg, find_pictures(Path(cfg.input)))
    checkpoint = read_checkpoint(cfg.ckpt_path)
    model = checkpoint.model()
    files = find_pictures(Path(cfg.input))
    config = checkpoint.config
    with checkpoint.named_errors():
        pictured, partial = not config["data"].get("samples"), (config["proposals"] or {}).get("_partial_")
        mapped = config["data"].get("kernel_map")
    if not pictured:
        raise ValueError(f"ckpt_path: {checkpoint.path} was learned from data that are not pictures, and cannot predict pictures")
    if partial:
        raise ValueError(f"ckpt_path: {checkpoint.path} was learned with boxes that only its own data set knows, and cannot propose others")
    if mapped:
        raise ValueError(
            f"ckpt_path: {checkpoint.path} has a kernel map that was fitted on its own data, and cannot predict other pictures"
        )
    proposals, features = checkpoint.part("proposals", Proposals), model.describer(checkpoint.part("features", Features))
    base = Path(cfg.input) if Path(cfg.input).is_dir() else Path(cfg.input).parent
    names = [path.relative_to(base).as_posix() for path in files]
    pictures = PictureSet(files, checkpoint.classes, torch.zeros(len(files), dtype=torch.long), names=names)

    def predictions() -> Iterator[Prediction]:
        for i in tqdm(range(len(pictures)), desc="pictures", unit="picture"):
            image = pictures.image(i)
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
    log.info("%d pictures\npredictions  %s", len(files), path)
    return path


def find_pictures(path: Path) -> list[Path]:
    """The pictures of a folder and its sub-folders, or the one picture that `path` is."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"input: {path} does not exist")
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not files:
        raise ValueError(f"input: {path} holds no picture ({', '.join(SUFFIXES)})")
    return files
