"""Images annotated in the format of COCO."""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lvmdc.boxes import LabelledBoxes
from lvmdc.storage.files import inside, read_json
from lvmdc.vision.datasets.images import ImageSet, image_size

log = logging.getLogger(__name__)
Row = dict[str, Any]  # of one of the lists of a file


@dataclass(frozen=True)
class Mark:
    """What an annotation says of its image: a category, its box x, y, width, height (None if it has no area), whether it is a crowd."""

    category: Any
    box: list[float] | None
    crowd: bool


def coco(json_path: str | Path, images_dir: str | Path | None = None) -> ImageSet:
    """The images of a COCO annotation file that show exactly one category; the true box is the largest one of it.

    An image has one label here, so images with annotations of several categories, or of none, are left out; how many is
    logged. Boxes of crowds (`iscrowd`) and boxes without an area count for the label but never as the true box; an image that has
    no other is left out. A box may reach over the edge of its image by one pixel, as COCO's rounding does, and is cut
    there. The classes are the categories that remain, in the order of the file.

    Args:
        json_path: a file with the lists `images`, `annotations` and `categories`.
        images_dir: the folder that each `file_name` starts from; the folder of the JSON file where not given.

    >>> import json, tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     Image.new("RGB", (6, 4)).save(f"{path}/1.png")
    ...     table = {"images": [{"id": 7, "file_name": "1.png"}], "categories": [{"id": 3, "name": "cat"}],
    ...              "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 1, 3, 2]}]}
    ...     _ = Path(path, "cats.json").write_text(json.dumps(table))
    ...     coco(f"{path}/cats.json").boxes.tolist()
    [[1.0, 1.0, 4.0, 3.0]]
    """
    path = Path(json_path)
    directory, images, categories, marks = _read(path, images_dir)
    shown = {key: {mark.category for mark in marks[key]} for key in images}
    usable = {key: [mark.box for mark in marks[key] if mark.box is not None and not mark.crowd] for key in images}
    chosen = [key for key in images if len(shown[key]) == 1 and usable[key]]
    log.info("%s: %d of %d images are left out, since they do not show exactly one category", path, len(images) - len(chosen), len(images))
    if not chosen:
        raise ValueError(f"{path} has no image whose annotations are all of one category")
    files = _files(path, directory, [images[key] for key in chosen])
    found = set.union(*(shown[key] for key in chosen))
    kept = [category for category in categories if category in found]
    y = [kept.index(next(iter(shown[key]))) for key in chosen]
    boxes = []
    for key, file in zip(chosen, files, strict=True):
        largest = max(usable[key], key=lambda box: box[2] * box[3])
        boxes.append(placed(largest, _checked_size(images[key], file, path), f"{path}: {file}"))
    return ImageSet(files, [str(categories[c]["name"]) for c in kept], y, boxes, [str(images[key]["file_name"]) for key in chosen])


def coco_scenes(
    json_path: str | Path,
    images_dir: str | Path | None = None,
    test_json: str | Path | None = None,
    test_images: str | Path | None = None,
) -> ImageSet:
    """All images of a COCO annotation file, labelled with the categories that they show; the boxes are for measuring.

    Crowds (`iscrowd`) are difficult boxes: they count neither for nor against a prediction, and where they are all that an image has of a
    category its label is 0, unknown. A box without an area says that its category is there, not where. Images without annotations
    stay: they are background. The classes are the categories that some annotation names, in the order of the file.

    Args:
        json_path: a file with the lists `images`, `annotations` and `categories`.
        images_dir: the folder that each `file_name` starts from; the folder of the JSON file where not given.
        test_json: a second file of the same kind, whose images are those to test with; None: one set, to be divided at random.
        test_images: the folder of its images.

    >>> import json, tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     Image.new("RGB", (6, 4)).save(f"{path}/1.png")
    ...     table = {"images": [{"id": 7, "file_name": "1.png"}], "categories": [{"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}],
    ...              "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 1, 3, 2]},
    ...                              {"id": 2, "image_id": 7, "category_id": 5, "bbox": [0, 0, 1, 1]}]}
    ...     _ = Path(path, "pets.json").write_text(json.dumps(table))
    ...     images = coco_scenes(f"{path}/pets.json")
    >>> images, images.shown(0)
    (ImageSet(1 images of 2 classes, 2 boxes), ['cat', 'dog'])
    """
    files: list[Path] = []
    names: list[str] = []
    division: list[int] = []
    found: list[tuple[int, str, Mark, list[float] | None]] = []  # image, name of the category, mark, corners
    classes: list[str] = []
    for part, (json_file, folder) in enumerate([(json_path, images_dir)] + ([] if test_json is None else [(test_json, test_images)])):
        path = Path(json_file)
        directory, images, categories, marks = _read(path, folder)
        if not images:
            raise ValueError(f"{path} must have images in its list 'images', but it is empty")
        here = _files(path, directory, list(images.values()))
        for (key, image), file in zip(images.items(), here, strict=True):
            boxed = any(mark.box is not None for mark in marks[key])
            size = _checked_size(image, file, path) if boxed else (0, 0)  # each image is opened once
            for mark in marks[key]:
                corners = None if mark.box is None else placed(mark.box, size, f"{path}: {file}")
                found.append((len(files), str(categories[mark.category]["name"]), mark, corners))
            files.append(file)
            names.append(str(image["file_name"]))
            division.append(part)
        annotated = {mark.category for own in marks.values() for mark in own}
        classes += [str(row["name"]) for key, row in categories.items() if key in annotated]
    classes = list(dict.fromkeys(classes))
    if not classes:
        raise ValueError(f"{json_path} has no annotation, so that there is nothing to learn")
    placed_marks = [(i, classes.index(name), corners, mark.crowd) for i, name, mark, corners in found if corners is not None]
    truth = LabelledBoxes(
        torch.tensor([i for i, _, _, _ in placed_marks], dtype=torch.long),
        torch.tensor([k for _, k, _, _ in placed_marks], dtype=torch.long),
        torch.tensor([corners for _, _, corners, _ in placed_marks], dtype=torch.float32).reshape(-1, 4),
        difficult=torch.tensor([crowd for *_, crowd in placed_marks], dtype=torch.bool),
    )
    labels = truth.labels(len(files), len(classes))
    for i, name, mark, corners in found:
        if corners is None and not mark.crowd:
            labels[i, classes.index(name)] = 1
    counts = (len(files), len(truth), len(classes), int(truth.difficult.sum()))
    log.info("%s: %d images, %d boxes of %d categories, %d of them crowds", json_path, *counts)
    return ImageSet(files, classes, labels, truth, names, division=None if test_json is None else division)


def _read(path: Path, images_dir: str | Path | None) -> tuple[Path, dict[Any, Row], dict[Any, Row], dict[Any, list[Mark]]]:
    """The folder of images; images and categories by id; the marks of each image."""
    if not path.is_file():
        raise FileNotFoundError(f"the annotation file {path} does not exist")
    content = read_json(path)
    for name, needs in (("images", ("id", "file_name")), ("annotations", ()), ("categories", ("id", "name"))):
        rows = content.get(name) if isinstance(content, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{path} must have a list {name!r} of objects, as COCO annotations have")
        for i, row in enumerate(rows):
            for key in needs:
                if not isinstance(row.get(key), str if key == "file_name" else (str, int)):
                    raise ValueError(f"{path}: {name}[{i}] must have a proper {key!r}, but it is {row.get(key)!r}")
        if needs and len({row["id"] for row in rows}) < len(rows):
            raise ValueError(f"{path}: {name} must have ids that differ, but two are the same")
    images, categories = ({row["id"]: row for row in content[name]} for name in ("images", "categories"))
    directory = path.parent if images_dir is None else Path(images_dir)
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder of images {directory} does not exist")
    marks: dict[Any, list[Mark]] = {key: [] for key in images}
    for annotation in content["annotations"]:
        where = f"{path}: annotation {annotation.get('id', '?')}"
        image, category, box = (annotation.get(name) for name in ("image_id", "category_id", "bbox"))
        for kind, key, known in (("image", image, images), ("category", category, categories)):
            if not isinstance(key, str | int) or key not in known:
                raise ValueError(f"{where} names the {kind} {key!r}, which is not in the file's list")
        if not (isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and math.isfinite(v) for v in box)):
            raise ValueError(f"{where} must have a bbox of four numbers x, y, width, height, but it is {box!r}")
        has_area = box[2] > 0 and box[3] > 0
        marks[image].append(Mark(category, [float(v) for v in box] if has_area else None, bool(annotation.get("iscrowd"))))
    return directory, images, categories, marks


def _files(path: Path, directory: Path, rows: list[Row]) -> list[Path]:
    files = [inside(directory, row["file_name"], str(path)) for row in rows]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"{path} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} images are missing)")
    return files


def _checked_size(image: Row, file: Path, path: Path) -> tuple[int, int]:
    """Width and height of the image in a file, refused if its annotations are for another size."""
    width, height = image_size(file)
    said = (image.get("width", width), image.get("height", height))
    if said != (width, height):
        raise ValueError(f"{path}: {file} is {width} by {height} pixels, but its annotations are for an image of {said[0]} by {said[1]}")
    return width, height


def placed(box: list[float], size: tuple[int, int], where: str) -> list[float]:
    """Corners of the box x, y, width, height, inside the image of that width and height.

    >>> placed([1, 1, 3.5, 2], (4, 6), "a.png")
    [1, 1, 4, 3]
    """
    width, height = size
    x, y, w, h = box
    if x < -1 or y < -1 or x + w > width + 1 or y + h > height + 1:
        raise ValueError(f"{where}: the box {box} (x, y, width, height) must lie inside the image, which is {width} by {height} pixels")
    corners = [max(x, 0.0), max(y, 0.0), min(x + w, width), min(y + h, height)]
    if corners[2] <= corners[0] or corners[3] <= corners[1]:
        raise ValueError(f"{where}: the box {box} (x, y, width, height) must lie inside the image, but it is outside its edge")
    return corners
