"""Pictures with several categories each, annotated in the format of COCO."""

import logging
from pathlib import Path
from typing import Any

import torch

from lvmdc.data.coco import checked_size, placed, tables, usable_box
from lvmdc.data.scenes import SceneSet
from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.storage import inside

log = logging.getLogger(__name__)


def coco_scenes(
    json_path: str | Path,
    images_dir: str | Path | None = None,
    test_json: str | Path | None = None,
    test_images: str | Path | None = None,
) -> SceneSet:
    """All pictures of a COCO annotation file, labelled with the categories that they show; the boxes are for measuring.

    Crowds (`iscrowd`) are difficult boxes: they count neither for nor against a prediction, and where they are all that a picture has of a
    category its label is 0, not told. A box without an area tells that its category is there, not where. Pictures without annotations
    stay: they are background. The classes are the categories that some annotation names, in the order of the file.

    Args:
        json_path: a file with the lists `images`, `annotations` and `categories`.
        images_dir: the folder that each `file_name` starts from; the folder of the JSON file where not given.
        test_json: a second file of the same kind, whose pictures are those to test with; None: one set, to be divided at random.
        test_images: the folder of its pictures.

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
    (SceneSet(1 pictures of 2 classes, 2 boxes), ['cat', 'dog'])
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
        "%s: %d pictures, %d boxes of %d categories, %d of them crowds",
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
    """Files, names, annotations as picture, category, box (None without an area) and crowd; and the categories in order."""
    directory = path.parent if images_dir is None else Path(images_dir)
    images, annotations, categories = tables(path)
    if not directory.is_dir():
        raise FileNotFoundError(f"the folder of pictures {directory} does not exist")
    if not images:
        raise ValueError(f"{path} must have pictures in its list 'images', but it is empty")
    files = [inside(directory, row["file_name"], str(path)) for row in images.values()]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"{path} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} pictures are missing)")
    number, found = {key: i for i, key in enumerate(images)}, []
    sizes: dict[int, tuple[int, int]] = {}  # of pictures with boxes, each of which is opened once
    for annotation in annotations:
        image, category, box = usable_box(annotation, path, images, categories)
        i = number[image]
        if box is not None and i not in sizes:
            sizes[i] = checked_size(images[image], files[i], path)
        corners = None if box is None else placed(box, sizes[i], f"{path}: {files[i]}")
        found.append((i, str(categories[category]["name"]), corners, bool(annotation.get("iscrowd"))))
    return files, [str(row["file_name"]) for row in images.values()], found, [str(row["name"]) for row in categories.values()]
