"""Files of a PASCAL VOC devkit: lists of images, and annotations of the objects in an image."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from lvmdc.storage.files import read_text

DEPTH = 20  # of the elements of an annotation; VOC has four levels
CORNERS = ("xmin", "ymin", "xmax", "ymax")


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the words of each line of a list that is not empty."""
    if not path.is_file():
        raise FileNotFoundError(f"the list {path} does not exist")
    lines = read_text(path).splitlines()
    return ((i, line.split()) for i, line in enumerate(lines, start=1) if line.strip())


def listed(path: Path) -> list[str]:
    """The images in a list, each once: it may have a line for every object."""
    keys = list(dict.fromkeys(words[0] for _, words in rows_of(path)))
    if not keys:
        raise ValueError(f"{path} must name the images of the split, but it is empty")
    outside = [key for key in keys if Path(key).name != key or "\\" in key or not key.isprintable() or len(key) > 200]
    if outside:
        raise ValueError(f"{path} must name images without their folder, but it has {outside[0][:80]!r}")
    return keys


def voc_files(folder: Path, keys: list[str], suffix: str, lists: str) -> list[Path]:
    """The file of each image in a folder of the devkit; missing ones are refused with the lists that name them."""
    files = [folder / f"{key}{suffix}" for key in keys]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{lists} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} files are missing in {folder})"
        )
    return files


@dataclass(frozen=True)
class VocObject:
    """An annotated object: its number in the image, from 1; its class; its box in pixels; flags; actions, None where unknown."""

    number: int
    name: str
    box: tuple[float, float, float, float]
    difficult: bool
    truncated: bool
    actions: frozenset[str] | None

    @property
    def area(self) -> float:
        """Width times height of the box."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])


def read_objects(path: Path, size: tuple[int, int], only: str | None = None) -> list[VocObject]:
    """The objects of an annotation file, in its order; with `only`, those of that name. Missing flags are false.

    VOC counts pixels from 1 and both ends of a box are inside it, so that x1 = xmin − 1 and x2 = xmax here. A box may reach over the edge
    of its image by one pixel, as VOC's rounding does, and is cut there.

    Args:
        path: `Annotations/<image>.xml`.
        size: width and height of the image itself.
    """
    root = _parsed(path)
    _check_size(path, root, size)
    found = []
    for number, item in enumerate(root.iter("object"), start=1):
        name, where = (item.findtext("name") or "").strip(), f"{path}: object {number}"
        if not name:
            raise ValueError(f"{where} must have a name, but it has none")
        if only is None or name == only:
            difficult, truncated = (_flag(item.findtext(flag), flag, where) for flag in ("difficult", "truncated"))
            found.append(VocObject(number, name, _box(item, size, where), difficult, truncated, _actions(item, where)))
    return found


def _parsed(path: Path) -> ElementTree.Element:
    """The root of an XML file. Document types are refused, since entities may expand to many times their size; nesting is limited."""
    builder, depth = ElementTree.TreeBuilder(), 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEPTH:
            raise ValueError(f"{path} is nested more than {DEPTH} levels deep, which no annotation is")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*declaration: object) -> None:
        raise ValueError(f"{path} declares a document type, which annotations do not have")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"the annotation file {path} does not exist") from None
    except expat.ExpatError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid XML: {expat.ErrorString(error.code)}") from None
    except (LookupError, ValueError) as error:  # an encoding that does not exist, or one of the refusals above
        raise error if str(path) in str(error) else ValueError(f"{path}: not valid XML: {error}") from None
    return builder.close()


def _flag(value: str | None, name: str, where: str) -> bool:
    text = (value or "0").strip()
    if text not in ("0", "1"):
        raise ValueError(f"{where}: {name} must be 0 or 1, but it is {text!r}")
    return text == "1"


def _check_size(path: Path, root: ElementTree.Element, size: tuple[int, int]) -> None:
    stated = root.findtext("size/width"), root.findtext("size/height")
    if stated != (None, None) and tuple(_number(value) for value in stated) != size:
        raise ValueError(f"{path} is for an image of {stated[0]} by {stated[1]} pixels, but the image is {size[0]} by {size[1]}")


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


def _box(item: ElementTree.Element, size: tuple[int, int], where: str) -> tuple[float, float, float, float]:
    texts = [item.findtext(f"bndbox/{corner}") for corner in CORNERS]
    xmin, ymin, xmax, ymax = (_number(text) for text in texts)
    for corner, value, text in zip(CORNERS, (xmin, ymin, xmax, ymax), texts, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {corner} of its bndbox must be a number, but it is {text!r}")
    x1, y1, x2, y2 = xmin - 1, ymin - 1, xmax, ymax
    box = max(x1, 0.0), max(y1, 0.0), min(x2, size[0]), min(y2, size[1])
    if min(x1, y1) < -1 or x2 > size[0] + 1 or y2 > size[1] + 1 or box[2] <= box[0] or box[3] <= box[1]:
        corners = ", ".join(f"{value:g}" for value in (xmin, ymin, xmax, ymax))
        raise ValueError(f"{where}: its box {corners} must lie inside the image, which is {size[0]} by {size[1]} pixels")
    return box


def _actions(item: ElementTree.Element, where: str) -> frozenset[str] | None:
    actions = item.find("actions")
    return None if actions is None else frozenset(a.tag for a in actions if _flag(a.text, a.tag, where))
