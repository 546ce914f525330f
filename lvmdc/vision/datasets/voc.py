"""PASCAL VOC: the actions of the paper's second experiment (section 6.2), and the detection sets.

Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL visual object classes (VOC) challenge. IJCV 2010.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from lvmdc.boxes import LabelledBoxes
from lvmdc.vision.datasets.images import ImageSet, image_size
from lvmdc.vision.datasets.voc_annotation import VocObject, listed, read_objects, rows_of, voc_files

log = logging.getLogger(__name__)

ACTIONS = (
    "jumping",
    "phoning",
    "playinginstrument",
    "reading",
    "ridingbike",
    "ridinghorse",
    "running",
    "takingphoto",
    "usingcomputer",
    "walking",
)
YEARS = (2010, 2011, 2012)  # those with an action task
SPLITS = ("train", "val", "trainval")
HOW = "`lvmdc prepare voc_action` says how to get it"


def voc_action(path: str | Path, year: int = 2011, split: str = "trainval") -> ImageSet:
    """The images of the action task whose largest annotated person shows exactly one of the ten actions; the true box is that person's.

    The paper does not say how an image with several people gets its one label; ours is the rule above. Images whose largest
    person shows several of the actions, or none of them (`other` is none), are left out, and how many is logged. `objects` has the
    boxes of all annotated people.

    What a person does is in `actions` of the annotation. Where a file has none, as older ones may, it is taken from the lists
    `ImageSets/Action/<action>_<split>.txt`, which name image, number of the object and 1 or −1. VOC 2010 had nine actions, all but
    jumping. The boxless part of VOC 2012, whose people have a point but no box, is not read.

    Args:
        path: the devkit, which holds `VOC<year>` with its folders Annotations, ImageSets/Action and JPEGImages.
        year: 2010, 2011 or 2012.
        split: train, val or trainval; the actions in test images were never published.

    >>> voc_action("VOCdevkit", split="test")
    Traceback (most recent call last):
    ValueError: split must be one of train, val, trainval, but it is 'test'
    """
    check_year(year)
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, but it is {split!r}")
    root = Path(path) / f"VOC{year}"
    for part in (root, root / "ImageSets" / "Action", root / "Annotations", root / "JPEGImages"):
        if not part.is_dir():
            raise FileNotFoundError(f"the folder {part} of the VOC {year} devkit does not exist; {HOW}")
    known = ACTIONS[1:] if year == 2010 else ACTIONS
    keys = listed(root / "ImageSets" / "Action" / f"{split}.txt")
    files, annotations = (
        voc_files(root / place, keys, end, f"{split}.txt") for place, end in (("JPEGImages", ".jpg"), ("Annotations", ".xml"))
    )
    lists: dict[tuple[str, int], set[str]] | None = None
    chosen, y, boxes, objects, several, none = [], [], [], [], 0, 0
    for key, file, annotation in zip(keys, files, annotations, strict=True):
        people = read_objects(annotation, image_size(file), only="person")
        largest = max(people, key=lambda person: person.area, default=None)
        if largest is not None and largest.actions is None and lists is None:
            lists = _action_lists(root, split, known)
        shown = [] if largest is None else _shown(key, largest, lists or {}, known)
        several, none = several + (len(shown) > 1), none + (not shown)
        if largest is not None and len(shown) == 1:
            chosen.append(file)
            y.append(known.index(shown[0]))
            boxes.append(largest.box)
            objects.append([person.box for person in people])
    if not chosen:
        raise ValueError(f"{root} has no image in {split} whose largest person shows exactly one action")
    log.info(
        "%s, %s: %d of %d images; the largest person shows several actions in %d, none of the %d in %d, which are left out",
        *(root, split, len(chosen), len(keys), several, len(known), none),
    )
    return ImageSet(chosen, known, y, boxes, [file.name for file in chosen], objects=objects)


def check_year(year: int) -> None:
    """Refuse a year without an action task.

    >>> check_year(2009)
    Traceback (most recent call last):
    ValueError: year must be one of 2010, 2011, 2012, which have an action task, but it is 2009
    """
    if year not in YEARS:
        raise ValueError(f"year must be one of {', '.join(map(str, YEARS))}, which have an action task, but it is {year!r}")


def _action_lists(root: Path, split: str, known: tuple[str, ...]) -> dict[tuple[str, int], set[str]]:
    """Image and number of an object → the actions that it is in the lists for."""
    found: dict[tuple[str, int], set[str]] = {}
    for action in known:
        path = root / "ImageSets" / "Action" / f"{action}_{split}.txt"
        for line, words in rows_of(path):
            if len(words) != 3 or not words[1].isdecimal() or len(words[1]) > 9 or words[2] not in ("1", "-1", "0"):
                raise ValueError(
                    f"{path}, line {line}: must be image, number of the object and 1 or -1, but it is {' '.join(words)[:80]!r}"
                )
            found.setdefault((words[0], int(words[1])), set()).update([action] if words[2] == "1" else [])
    return found


def _shown(key: str, person: VocObject, lists: dict[tuple[str, int], set[str]], known: tuple[str, ...]) -> list[str]:
    actions = lists.get((key, person.number), set()) if person.actions is None else person.actions
    return [action for action in known if action in actions]


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
) -> ImageSet:
    """The images of a VOC detection set, labelled with the classes that they show; the true boxes are for measuring.

    A class is labelled −1 where none of it is annotated, 0 (unknown) where all of its objects are marked difficult, 1 elsewhere, as in
    the devkit's own lists. Difficult boxes count neither for nor against a prediction.
    Classes that no image shows are left out unless asked for; images that show none of the classes stay: they are background.

    Args:
        path: the devkit, which holds `VOC<year>` with its folders Annotations, ImageSets and JPEGImages.
        year: of the devkit.
        train: the list `ImageSets/<image_set>/<train>.txt` of images to learn from; None: all that are annotated, divided at random.
        test: the list of images to test with; None: those of `train` are divided at random.
        classes: names of the classes, in this order; VOC's twenty, and what else is annotated after them, where not given.
        label: what the class of an object is: its `name`, or each `action` that an annotated person shows (VOC 2010 to 2012), so that a
            image with several people may show several.
        image_set: the folder of the lists: Main, or Action for those of the action task.
        progress: show a bar while annotations are read.
        truncated: what becomes of objects that go on outside the image or behind something: `keep`, they are objects like others, as
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
        raise ValueError(f"test must be None where train is None, since every annotated image is taken, but it is {test!r}")
    root = Path(path) / f"VOC{year}"
    for part in (root, root / "Annotations", root / "JPEGImages"):
        if not part.is_dir():
            raise FileNotFoundError(f"the folder {part} of the VOC {year} devkit does not exist")
    keys, division = _images(root, image_set, train, test)
    lists = " or ".join(f"{name}.txt" for name in (train, test) if name) or "Annotations"
    files, annotations = (voc_files(root / place, keys, end, lists) for place, end in (("JPEGImages", ".jpg"), ("Annotations", ".xml")))
    pairs = tqdm(zip(files, annotations, strict=True), total=len(files), desc="annotations", unit="image", disable=not progress)
    objects = [read_objects(annotation, image_size(file)) for file, annotation in pairs]
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
        "%s: %d images, %d boxes of %d classes, %d of them difficult, %d truncated",
        *(root, len(keys), len(rows), len(chosen), int(truth.difficult.sum()), cut),
    )
    return ImageSet(files, chosen, boxes=truth, names=[file.name for file in files], division=division)


def _images(root: Path, image_set: str, train: str | None, test: str | None) -> tuple[list[str], list[int] | None]:
    """The names of the images, and the part of each where there are two."""
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
        raise ValueError(f"train and test must name different images, but {both[0]} is in both {train} and {test}")
    return first + second, [0] * len(first) + [1] * len(second)


def _names(item: VocObject, label: str) -> list[str]:
    if label == "name":
        return [item.name]
    return sorted(item.actions - {"other"}) if item.actions is not None else []


def _classes(shown: Sequence[Sequence[tuple[str, VocObject]]]) -> list[str]:
    """Those that some image shows, and not by difficult objects alone."""
    found = {name for inside in shown for name, item in inside if not item.difficult}
    return [name for name in CLASSES if name in found] + sorted(found - set(CLASSES))
