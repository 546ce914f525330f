"""The detection sets of PASCAL VOC: several objects of several classes in a picture.

Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL visual object classes (VOC) challenge. IJCV 2010.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from lvmdc.data.reading import picture_size
from lvmdc.data.scenes import SceneSet
from lvmdc.data.voc_annotation import VocObject, read_objects
from lvmdc.data.voc_lists import listed, voc_files
from lvmdc.labelled_boxes import LabelledBoxes

log = logging.getLogger(__name__)

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
LABELS = ("name", "action")
TRUNCATED = ("keep", "difficult")


def voc_detection(
    path: str | Path,
    year: int = 2007,
    train: str | None = "trainval",
    test: str | None = "test",
    classes: Sequence[str] | None = None,
    label: str = "name",
    image_set: str = "Main",
    progress: bool = False,
    truncated: str = "keep",
) -> SceneSet:
    """The pictures of a VOC detection set, labelled with the classes that they show; the true boxes are for measuring.

    A class is labelled −1 where none of it is annotated, 0 (not told) where all of its objects are marked difficult, 1 elsewhere, as in
    the devkit's own lists. Difficult boxes count neither for nor against a prediction.
    Classes that no picture shows are left out unless asked for; pictures that show none of the classes stay: they are background.

    Args:
        path: the devkit, which holds `VOC<year>` with its folders Annotations, ImageSets and JPEGImages.
        year: of the devkit.
        train: the list `ImageSets/<image_set>/<train>.txt` of pictures to learn from; None: all that are annotated, divided at random.
        test: the list of pictures to test with; None: those of `train` are divided at random.
        classes: names of the classes, in this order; VOC's twenty, and what else is annotated after them, where not given.
        label: what the class of an object is: its `name`, or each `action` that an annotated person shows (VOC 2010 to 2012), so that a
            picture with several people may show several.
        image_set: the folder of the lists: Main, or Action for those of the action task.
        progress: show a bar while annotations are read.
        truncated: what becomes of objects that go on outside the picture or behind something: `keep`, they are objects like others, as
            VOC's own measures have it; or `difficult`, as if they were marked so, for detectors of whole objects.

    >>> voc_detection("VOCdevkit", label="pose")
    Traceback (most recent call last):
    ValueError: label must be one of name, action, but it is 'pose'
    """
    if label not in LABELS:
        raise ValueError(f"label must be one of {', '.join(LABELS)}, but it is {label!r}")
    if truncated not in TRUNCATED:
        raise ValueError(f"truncated must be one of {', '.join(TRUNCATED)}, but it is {truncated!r}")
    if train is None and test is not None:
        raise ValueError(f"test must be None where train is None, since every annotated picture is taken, but it is {test!r}")
    root = Path(path) / f"VOC{year}"
    for part in (root, root / "Annotations", root / "JPEGImages"):
        if not part.is_dir():
            raise FileNotFoundError(f"the folder {part} of the VOC {year} devkit does not exist")
    keys, division = _pictures(root, image_set, train, test)
    lists = " or ".join(f"{name}.txt" for name in (train, test) if name) or "Annotations"
    files, annotations = (voc_files(root / place, keys, end, lists) for place, end in (("JPEGImages", ".jpg"), ("Annotations", ".xml")))
    pairs = tqdm(zip(files, annotations, strict=True), total=len(files), desc="annotations", unit="picture", disable=not progress)
    objects = [read_objects(annotation, picture_size(file)) for file, annotation in pairs]
    if truncated == "difficult":
        objects = [[replace(o, difficult=o.difficult or o.truncated) for o in inside] for inside in objects]
    shown = [[(name, o) for o in inside for name in _names(o, label)] for inside in objects]
    chosen = list(classes) if classes is not None else _classes(shown)
    if not chosen:
        raise ValueError(f"{root} has no object with a{'n' if label == 'action' else ''} {label} in its lists")
    rows = [(i, chosen.index(name), o) for i, inside in enumerate(shown) for name, o in inside if name in chosen]
    truth = LabelledBoxes(
        torch.tensor([i for i, _, _ in rows], dtype=torch.long),
        torch.tensor([k for _, k, _ in rows], dtype=torch.long),
        torch.tensor([o.box for _, _, o in rows], dtype=torch.float32).reshape(-1, 4),
        difficult=torch.tensor([o.difficult for _, _, o in rows], dtype=torch.bool),
    )
    cut = sum(o.truncated for _, _, o in rows)
    log.info(
        "%s: %d pictures, %d boxes of %d classes, %d of them difficult, %d truncated",
        *(root, len(keys), len(rows), len(chosen), int(truth.difficult.sum()), cut),
    )
    return SceneSet.of_boxes(files, chosen, truth, [file.name for file in files], division)


def _pictures(root: Path, image_set: str, train: str | None, test: str | None) -> tuple[list[str], list[int] | None]:
    """The names of the pictures, and the part of each where there are two."""
    if train is None:
        keys = sorted(file.stem for file in (root / "Annotations").glob("*.xml") if not file.name.startswith("."))
        if not keys:
            raise ValueError(f"{root / 'Annotations'} must hold annotation files, but it holds none")
        return keys, None
    first = listed(root / "ImageSets" / image_set / f"{train}.txt")
    if test is None:
        return first, None
    second = listed(root / "ImageSets" / image_set / f"{test}.txt")
    both = sorted(set(first) & set(second))
    if both:
        raise ValueError(f"train and test must name different pictures, but {both[0]} is in both {train} and {test}")
    return first + second, [0] * len(first) + [1] * len(second)


def _names(item: VocObject, label: str) -> list[str]:
    if label == "name":
        return [item.name]
    return sorted(item.actions - {"other"}) if item.actions is not None else []


def _classes(shown: Sequence[Sequence[tuple[str, VocObject]]]) -> list[str]:
    """Those that some picture shows, and not by difficult objects alone."""
    found = {name for inside in shown for name, item in inside if not item.difficult}
    return [name for name in CLASSES if name in found] + sorted(found - set(CLASSES))
