"""Use a checkpoint: measure it on the test part of its data, or predict custom images."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig
from PIL import Image
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.cli import errors
from lvmdc.cli.report import added_note, measures_table
from lvmdc.lightning.checkpoint import Checkpoint, read_checkpoint
from lvmdc.lightning.data import peak_memory
from lvmdc.lightning.detector import DetectorModule
from lvmdc.lightning.drawing import surest, usual_boxes
from lvmdc.lightning.module import LatentModule
from lvmdc.reporting import Detection, Prediction, save_predictions
from lvmdc.reporting.predictions import SceneRecord, save_scenes
from lvmdc.storage.files import SUFFIXES, write_measures
from lvmdc.vision.datasets.folder import refuse, unreadable
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.detection import Detector
from lvmdc.vision.features import Features
from lvmdc.vision.features.with_prior import described_with_prior, from_prior
from lvmdc.vision.proposals import Proposals

log = logging.getLogger(__name__)
ALTERNATIVES = 3  # of an image, in predictions.json


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc eval`, and scripts/eval.py."""
    errors.run("eval", evaluate_checkpoint, words)


def predict_main(words: Sequence[str] | None = None) -> None:
    """`lvmdc predict`, and scripts/predict.py."""
    errors.run("predict", predict_images, words)


def evaluate_checkpoint(cfg: DictConfig) -> dict[str, float]:
    """Measure a checkpoint on the test part of its data: a table, and results.json in the run folder."""
    checkpoint = read_checkpoint(cfg.ckpt_path).overridden(list(cfg.overrides), cfg.paths.cache_dir)
    model, data = checkpoint.model(), checkpoint.data()
    model.check_data(data)
    if not data.has_test:
        raise ValueError("the data have no test part, all images were used for training: train again with data.fraction=0.6 to keep one")
    data.setup("test")
    assert data.test is not None
    measures = model.measure(data.test)
    path = Path(cfg.paths.output_dir) / "results.json"
    write_measures(path, measures)
    log.info("%s\n\n%s\n\nresults  %s", checkpoint.path, measures_table({"test": measures}, checkpoint.classes).text(), path)
    return measures


def predict_images(cfg: DictConfig) -> Path:
    """Classes and boxes, or all objects, in custom images: predictions.json and drawings."""
    checkpoint = read_checkpoint(cfg.ckpt_path)
    model = checkpoint.model()
    check_images(checkpoint)
    proposals, features = checkpoint.part("proposals", Proposals), model.describer(checkpoint.part("features", Features))
    prior = checkpoint.prior()
    files = find_images(Path(cfg.input))
    base = Path(cfg.input) if Path(cfg.input).is_dir() else Path(cfg.input).parent
    if not isinstance(model, DetectorModule):
        if cfg.min_score is not None:
            raise ValueError(
                "min_score is for detectors, but this model predicts one object in every image; top_k=3 lists its 3 best candidates"
            )
        if cfg.top_k is not None and cfg.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or null, but it is {cfg.top_k}")
    refuse(unreadable(files), f"input: {cfg.input} cannot be predicted")
    images = ImageSet(files, checkpoint.classes, names=[path.relative_to(base).as_posix() for path in files])

    counted: Counter[bool] = Counter()  # boxes, by whether the prior added them

    def described() -> Iterator[tuple[str, Image.Image, Candidates, int]]:
        for i, name in enumerate(tqdm(images.names, desc="images", unit="image")):
            image = images.image(i)
            boxes = proposals.boxes(image, name)
            yield name, image, described_with_prior(image, name, boxes, features, prior, checkpoint.prior_columns), len(boxes)

    def scenes(detector: Detector) -> Iterator[SceneRecord]:
        most, least = shown(detector, cfg.top_k, cfg.min_score)
        for name, image, c, proposed in described():
            found = surest(detector.predict(c), least, most)
            own = from_prior(found, c, c.counts - proposed).tolist()
            counted.update(own)
            yield SceneRecord(name, found, image, own)

    def predictions() -> Iterator[Prediction]:
        for name, image, c, proposed in described():
            found = best(model, name, image, c, proposed, ALTERNATIVES if cfg.top_k is None else cfg.top_k)
            counted[found.best.from_prior] += 1
            yield found

    folder, began = Path(cfg.output or cfg.paths.output_dir), time.perf_counter()
    if isinstance(model, DetectorModule):
        path = save_scenes(folder, scenes(model.detector), checkpoint.classes)
    else:
        path = save_predictions(folder, predictions())
    seconds = (time.perf_counter() - began) / len(files)
    if counted[True]:
        log.warning("%s", added_note(counted[True], counted.total(), prior))
    log.info("%d images, %.2f s per image; peak memory %.1f GB", len(files), seconds, peak_memory() / 1e9)
    log.info("predictions  %s\ndrawings     %s", path, path.parent / "images")
    return path


def shown(detector: Detector, top_k: int | None, min_score: float | None) -> tuple[int | None, float]:
    """How many boxes per image are predicted, and above which probability; where neither is given, those of `usual_boxes`.

    >>> shown(Detector(), None, None), shown(Detector(), 3, None), shown(Detector(), None, 0.1)
    ((None, 0.5), (3, 0.0), (None, 0.1))
    """
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, or null, but it is {top_k}")
    if top_k is None and min_score is None:
        return usual_boxes(detector)
    return top_k, 0.0 if min_score is None else min_score


def best(model: LatentModule, name: str, image: Image.Image, candidates: Candidates, proposed: int, top_k: int) -> Prediction:
    """The best class and box of an image, and the alternatives; the prior added the candidates after the first `proposed`."""
    assert candidates.boxes is not None
    y, h, score = model.prediction(candidates).top_k(candidates, max(1, top_k))
    rows = zip(y[0].tolist(), h[0].tolist(), score[0].tolist(), strict=True)
    found = [Detection(model.classes[k], s, candidates.boxes[c], c >= proposed) for k, c, s in rows if k >= 0]
    return Prediction(name, found[0], found[1:], image)


def check_images(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that cannot predict other images than its own."""
    with checkpoint.named_errors():
        data, proposals = checkpoint.config["data"], checkpoint.config["proposals"] or {}
        kinds = {
            "was learned from data that are not images, and cannot predict images": data.get("samples"),
            "was learned with boxes that only its own data set knows, and cannot propose others": proposals.get("_partial_"),
            "has a kernel map that was fitted on its own data, and cannot predict other images": data.get("kernel_map"),
        }
    for reason, found in kinds.items():
        if found:
            raise ValueError(f"ckpt_path: {checkpoint.path} {reason}")


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
