"""The data of the paper's second experiment (section 6.2): actions of people, from PASCAL VOC.

Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL visual object classes (VOC) challenge. IJCV 2010.
"""

import logging
from pathlib import Path

from lvmdc.data.pictures import PictureSet
from lvmdc.data.reading import picture_size
from lvmdc.data.voc_annotation import Person, read_people
from lvmdc.data.voc_lists import listed, rows_of, voc_files

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
HOW = "`python scripts/prepare_data.py voc_action` says how to get it"


def voc_action(path: str | Path, year: int = 2011, split: str = "trainval") -> PictureSet:
    """The pictures of the action task whose largest annotated person shows exactly one of the ten actions; the true box is that person's.

    The paper does not say how a picture with several people gets its one label; ours is the rule above. Pictures whose largest
    person shows several of the actions, or none of them (`other` is none), are left out, and how many is logged. `objects` has the
    boxes of all annotated people.

    What a person does is told by `actions` in the annotation. Where a file has none, as older ones may, it is taken from the lists
    `ImageSets/Action/<action>_<split>.txt`, which name picture, number of the object and 1 or −1. VOC 2010 had nine actions, all but
    jumping. The boxless part of VOC 2012, whose people have a point but no box, is not read.

    Args:
        path: the devkit, which holds `VOC<year>` with its folders Annotations, ImageSets/Action and JPEGImages.
        year: 2010, 2011 or 2012.
        split: train, val or trainval; the actions in test pictures were never published.

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
        people = read_people(annotation, picture_size(file))
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
        raise ValueError(f"{root} has no picture in {split} whose largest person shows exactly one action")
    log.info(
        "%s, %s: %d of %d pictures; the largest person shows several actions in %d, none of the %d in %d, which are left out",
        *(root, split, len(chosen), len(keys), several, len(known), none),
    )
    return PictureSet(chosen, known, y, boxes, [file.name for file in chosen], objects=objects)


def check_year(year: int) -> None:
    """Refuse a year without an action task.

    >>> check_year(2009)
    Traceback (most recent call last):
    ValueError: year must be one of 2010, 2011, 2012, which have an action task, but it is 2009
    """
    if year not in YEARS:
        raise ValueError(f"year must be one of {', '.join(map(str, YEARS))}, which have an action task, but it is {year!r}")


def _action_lists(root: Path, split: str, known: tuple[str, ...]) -> dict[tuple[str, int], set[str]]:
    """Picture and number of an object → the actions that it is in the lists for."""
    told: dict[tuple[str, int], set[str]] = {}
    for action in known:
        path = root / "ImageSets" / "Action" / f"{action}_{split}.txt"
        for line, words in rows_of(path):
            if len(words) != 3 or not words[1].isdecimal() or len(words[1]) > 9 or words[2] not in ("1", "-1", "0"):
                raise ValueError(
                    f"{path}, line {line}: must be picture, number of the object and 1 or -1, but it is {' '.join(words)[:80]!r}"
                )
            told.setdefault((words[0], int(words[1])), set()).update([action] if words[2] == "1" else [])
    return told


def _shown(key: str, person: Person, lists: dict[tuple[str, int], set[str]], known: tuple[str, ...]) -> list[str]:
    actions = lists.get((key, person.number), set()) if person.actions is None else person.actions
    return [action for action in known if action in actions]
