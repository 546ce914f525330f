"""Images annotated in the format of COCO."""

import logging
import math
from pathlib import Path
from typing import Any

import torch

from lvmdc.boxes import LabelledBoxes
from lvmdc.storage.files import inside, read_json
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.datasets.reading import image_size
from lvmdc.vision.datasets.scenes import SceneSet

log = logging.getLogger(__name__)


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
    directory = path.parent if images_dir is None else Path(images_dir)
    images, annotations, categories = tables(path)
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder of images {directory} does not exist")
    shown, largest = _shown(path, images, annotations, categories)
    chosen = [key for key in images if len(shown[key]) == 1 and key in largest]
    log.info("%s: %d of %d images are left out, since they do not show exactly one category", path, len(images) - len(chosen), len(images))
    if not chosen:
        raise ValueError(f"{path} has no image whose annotations are all of one category")
    files = [inside(directory, images[key]["file_name"], str(path)) for key in chosen]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"{path} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} images are missing)")
    found = {category for key in chosen for category in shown[key]}
    kept = [category for category in categories if category in found]
    y = [kept.index(next(iter(shown[key]))) for key in chosen]
    boxes = [
        placed(largest[key], checked_size(images[key], file, path), f"{path}: {file}") for key, file in zip(chosen, files, strict=True)
    ]
    return ImageSet(files, [str(categories[c]["name"]) for c in kept], y, boxes, [str(images[key]["file_name"]) for key in chosen])


def tables(path: Path) -> tuple[dict[Any, dict[str, Any]], list[dict[str, Any]], dict[Any, dict[str, Any]]]:
    """Images by id, the annotations, categories by id."""
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
    return {row["id"]: row for row in content["images"]}, content["annotations"], {row["id"]: row for row in content["categories"]}


def _shown(
    path: Path, images: dict[Any, dict[str, Any]], annotations: list[dict[str, Any]], categories: dict[Any, dict[str, Any]]
) -> tuple[dict[Any, set[Any]], dict[Any, list[float]]]:
    """The categories that each image shows, and its largest usable box x, y, width, height where it has one."""
    shown: dict[Any, set[Any]] = {key: set() for key in images}
    largest: dict[Any, list[float]] = {}
    for annotation in annotations:
        image, category, box = usable_box(annotation, path, images, categories)
        shown[image].add(category)
        if box is None or annotation.get("iscrowd"):
            continue
        if image not in largest or box[2] * box[3] > largest[image][2] * largest[image][3]:
            largest[image] = box
    return shown, largest


def usable_box(
    annotation: dict[str, Any], path: Path, images: dict[Any, dict[str, Any]], categories: dict[Any, dict[str, Any]]
) -> tuple[Any, Any, list[float] | None]:
    """The ids of its image and category, and the box x, y, width, height of an annotation; None if the box has no area.

    >>> usable_box({"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 1, 3, 0]}, Path("a.json"), {7: {}}, {3: {}})
    (7, 3, None)
    """
    where = f"{path}: annotation {annotation.get('id', '?')}"
    image, category = annotation.get("image_id"), annotation.get("category_id")
    for kind, key, known in (("image", image, images), ("category", category, categories)):
        if not isinstance(key, str | int) or key not in known:
            raise ValueError(f"{where} names the {kind} {key!r}, which is not in the file's list")
    box = _box(annotation.get("bbox"), where)
    return image, category, box if box[2] > 0 and box[3] > 0 else None


def _box(box: Any, where: str) -> list[float]:
    numbers = isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and math.isfinite(v) for v in box)
    if not numbers:
        raise ValueError(f"{where} must have a bbox of four numbers x, y, width, height, but it is {box!r}")
    return [float(v) for v in box]


def checked_size(image: dict[str, Any], file: Path, path: Path) -> tuple[int, int]:
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


# Images with several categories each, annotated in the format of COCO.


def coco_scenes(
    json_path: str | Path,
    images_dir: str | Path | None = None,
    test_json: str | Path | None = None,
    test_images: str | Path | None = None,
) -> SceneSet:
    """All images of a COCO annotation file, labelled with the categories that they show; the boxes are for measuring.

    Crowds (`iscrowd`) are difficult boxes: they count neither for nor against a prediction, and where they are all that an image has of a
    category its label is 0, not told. A box without an area tells that its category is there, not where. Images without annotations
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
    ...     scenes = coco_scenes(f"{path}/pets.json")
    >>> scenes, scenes.shown(0)
    (SceneSet(1 images of 2 classes, 2 boxes), ['cat', 'dog'])
    """
    parts = [_read(Path(json_path), images_dir)]
    if test_json is not None:
        parts.append(_read(Path(test_json), test_images))
    classes = list(dict.fromkeys(name for _, _, rows, names in parts for name in names if any(row[1] == name for row in rows)))
    if not classes:
        raise ValueError(f"{json_path} has no annotation, so that there is nothing to learn")
    files: list[Path] = []
    names: list[str] = []
    division: list[int] = []
    rows: list[tuple[int, int, Any, bool]] = []
    for part, (own_files, own_names, own_rows, _) in enumerate(parts):
        rows += [(len(files) + i, classes.index(name), box, crowd) for i, name, box, crowd in own_rows]
        files, names, division = files + own_files, names + own_names, division + [part] * len(own_files)
    boxed = [row for row in rows if row[2] is not None]
    truth = LabelledBoxes(
        torch.tensor([i for i, _, _, _ in boxed], dtype=torch.long),
        torch.tensor([k for _, k, _, _ in boxed], dtype=torch.long),
        torch.tensor([box for _, _, box, _ in boxed], dtype=torch.float32).reshape(-1, 4),
        difficult=torch.tensor([crowd for *_, crowd in boxed], dtype=torch.bool),
    )
    labels = truth.labels(len(files), len(classes))
    for i, k, box, crowd in rows:
        if box is None and not crowd:
            labels[i, k] = 1
    log.info(
        "%s: %d images, %d boxes of %d categories, %d of them crowds",
        json_path,
        len(files),
        len(boxed),
        len(classes),
        int(truth.difficult.sum()),
    )
    return SceneSet(files, classes, labels, truth, names, division if test_json is not None else None)


def _read(
    path: Path, images_dir: str | Path | None
) -> tuple[list[Path], list[str], list[tuple[int, str, list[float] | None, bool]], list[str]]:
    """Files, names, annotations as image, category, box (None without an area) and crowd; and the categories in order."""
    directory = path.parent if images_dir is None else Path(images_dir)
    images, annotations, categories = tables(path)
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder of images {directory} does not exist")
    if not images:
        raise ValueError(f"{path} must have images in its list 'images', but it is empty")
    files = [inside(directory, row["file_name"], str(path)) for row in images.values()]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"{path} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} images are missing)")
    number, found = {key: i for i, key in enumerate(images)}, []
    sizes: dict[int, tuple[int, int]] = {}  # of images with boxes, each of which is opened once
    for annotation in annotations:
        image, category, box = usable_box(annotation, path, images, categories)
        i = number[image]
        if box is not None and i not in sizes:
            sizes[i] = checked_size(images[image], files[i], path)
        corners = None if box is None else placed(box, sizes[i], f"{path}: {files[i]}")
        found.append((i, str(categories[category]["name"]), corners, bool(annotation.get("iscrowd"))))
    return files, [str(row["file_name"]) for row in images.values()], found, [str(row["name"]) for row in categories.values()]
