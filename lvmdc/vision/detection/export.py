"""Pseudo-labels: the boxes found in images whose labels are known, as COCO annotations, for a fully supervised detector to learn from."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from lvmdc.arrays import ArrayLike
from lvmdc.boxes import LabelledBoxes, suppressed
from lvmdc.candidates import Candidates
from lvmdc.reporting.drawing import png
from lvmdc.storage.files import SafeNames, write_atomically
from lvmdc.vision.datasets.images import ImageSet, image_size
from lvmdc.vision.detection.class_problem import as_table
from lvmdc.vision.detection.detector import Detector


def pseudo_labels(detector: Detector, candidates: Candidates, labels: ArrayLike, min_score: float | None = None) -> LabelledBoxes:
    """The best box of each class in each image that is labelled with it, and, with `min_score`, the others that are so probable.

    With the best ones alone, second objects of a class are background to who learns from the boxes. Others are those of
    `Detector.predict`, after non-maximum suppression, in images that are labelled with their class.

    Args:
        labels: (n, K) as in `Detector.fit`.
        min_score: probability from which a box counts beside the best one of its image and class; None: the best ones alone.

    >>> import torch
    >>> from lvmdc import LSVM
    >>> c = Candidates(torch.tensor([[3.0], [0], [3.0], [0], [0], [0]]), [3, 3], [[0, 0, 2, 2], [4, 0, 6, 2], [8, 0, 9, 2]] * 2)
    >>> detector = Detector(LSVM(C=10.0, init="uniform")).fit(c, [[1], [-1]])
    >>> len(pseudo_labels(detector, c, [[1], [-1]])), pseudo_labels(detector, c, [[1], [-1]], min_score=0.5).box[:, 0].tolist()
    (1, [0.0, 8.0])
    """
    best = detector.locate(candidates, labels)
    if min_score is None:
        return best
    if not 0 <= min_score <= 1:
        raise ValueError(f"min_score must be a probability, or None, but it is {min_score}")
    found = detector.predict(candidates)
    assert found.score is not None
    there = as_table(candidates, labels, "labels")[found.image, found.label] == 1
    # The best ones are among those found, unless they are improbable: suppression leaves each once.
    return suppressed(LabelledBoxes.concat([best, found[there & (found.score >= min_score)]]), detector.overlap)


def save_coco(path: str | Path, images: ImageSet, boxes: LabelledBoxes) -> Path:
    """Write the boxes of the images as a COCO annotation file; each keeps its score, which COCO's readers pass over.

    `file_name` is relative to the folder that all images lie in, which `info.images_dir` names; images that are arrays are written as
    PNG into the folder `images` beside the file. `coco_scenes` and `coco` read it again.

    >>> import tempfile
    >>> images = ImageSet([np.zeros((4, 6), np.uint8)], ["cat"], labels=[[1]], names=["a"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_coco(f"{folder}/a.json", images, LabelledBoxes([0], [0], [[1, 1, 3, 4]], score=[0.5]))
    ...     json.loads(path.read_text())["annotations"]
    [{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1.0, 1.0, 2.0, 3.0], 'area': 6.0, 'iscrowd': 0, 'score': 0.5}]
    """
    path = Path(path)
    if len(boxes) and (int(boxes.image.max()) >= len(images) or int(boxes.label.max()) >= len(images.classes)):
        raise ValueError("boxes must be of the images and classes of the set, but one is of an image or class beyond them")
    files, sizes = _files(path.parent / "images", images)
    base = Path(os.path.commonpath([file.parent for file in files]))
    entries = [
        {"id": i, "file_name": file.relative_to(base).as_posix(), "width": width, "height": height}
        for i, (file, (width, height)) in enumerate(zip(files, sizes, strict=True), start=1)
    ]
    content = {
        "info": {"description": "boxes predicted by lvmdc from the labels of images", "images_dir": str(base)},
        "images": entries,
        "categories": [{"id": k, "name": name} for k, name in enumerate(images.classes, start=1)],
        "annotations": _annotations(boxes),
    }
    write_atomically(path, json.dumps(content, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace"))
    return path


def _files(folder: Path, images: ImageSet) -> tuple[list[Path], list[tuple[int, int]]]:
    """The file and the size, width and height, of every image."""
    files, sizes, names = [], [], SafeNames(".png")
    for i, source in enumerate(images.sources):
        if isinstance(source, np.ndarray):
            file = folder / names.path(images.names[i])
            write_atomically(file, png(images.image(i)))
            sizes.append((source.shape[1], source.shape[0]))
        else:
            file = Path(source)
            sizes.append(image_size(file))
        files.append(file.resolve())
    return files, sizes


def _annotations(boxes: LabelledBoxes) -> list[dict[str, Any]]:
    found = []
    columns = boxes.image.tolist(), boxes.label.tolist(), boxes.box.double().tolist()
    for j, (image, label, (x1, y1, x2, y2)) in enumerate(zip(*columns, strict=True)):
        corner, side = (round(x1, 3), round(y1, 3)), (round(x2 - x1, 3), round(y2 - y1, 3))
        entry = {"id": j + 1, "image_id": image + 1, "category_id": label + 1, "bbox": [*corner, *side]}
        entry |= {"area": round(side[0] * side[1], 3), "iscrowd": 0}
        found.append(entry if boxes.score is None else entry | {"score": float(boxes.score[j])})
    return found
