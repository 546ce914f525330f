"""Custom images: a folder of images by class, with or without a table of boxes."""

import csv
import logging
import math
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from lvmdc.storage.files import SUFFIXES
from lvmdc.vision.datasets.images import ImageSet, image_size, read_image

log = logging.getLogger(__name__)
FEWEST = 2  # images of a class that `check_folder` asks for
MOST_NAMED = 20  # problems that it lists; the others are counted
COLUMNS = ("image", "label", "x1", "y1", "x2", "y2")


def read_box_table(path: Path, root: Path, labels: Sequence[str], sizes: Mapping[str, tuple[int, int]]) -> list[list[float]]:
    """The box of each image from a table with the columns image,label,x1,y1,x2,y2, every row checked; NaN where the table has no row.

    Args:
        path: the table, in UTF-8.
        root: the folder that the images lie in.
        labels: the class of each image, in the order of `sizes`.
        sizes: image name `<class>/<file>` → width and height.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     table = Path(root, "boxes.csv")
    ...     _ = table.write_text("image,label,x1,y1,x2,y2\\ncat/1.png,cat,0,0,3,4\\n")
    ...     read_box_table(table, Path(root), ["cat"], {"cat/1.png": (6, 4)})
    [[0.0, 0.0, 3.0, 4.0]]
    """
    wanted = {_key(name): (name, label) for name, label in zip(sizes, labels, strict=True)}
    found: dict[str, list[float]] = {}
    for line, row in _rows(path):
        where = f"{path}, line {line}"
        name, label = _match(row["image"], path, root, wanted, where)
        if row["label"] is None or _key(row["label"]) != _key(label):
            raise ValueError(f"{where}: {name} lies in the class folder {label!r}, but its label is {row['label']!r}")
        if name in found:
            raise ValueError(f"{where}: {name} has a second row, but an image has one ground-truth box")
        found[name] = _box(row, sizes[name], f"{where}: {name}")
    if not found:
        raise ValueError(f"{path} must have a row for at least one image, but it has none")
    return [found.get(name, [math.nan] * 4) for name in sizes]


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    if not path.is_file():
        raise FileNotFoundError(f"the table of boxes {path} does not exist")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets put a byte order mark first
            reader = csv.DictReader(file, skipinitialspace=True)
            missing = [column for column in COLUMNS if column not in (reader.fieldnames or [])]
            if missing:
                raise ValueError(f"{path} must have the columns {','.join(COLUMNS)}, but its first line lacks {missing[0]!r}")
            twice = [column for column in COLUMNS if (reader.fieldnames or []).count(column) > 1]
            if twice:
                raise ValueError(f"{path} must have each column once, but its first line has {twice[0]!r} twice")
            rows = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, but byte {error.start} is not") from None
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not a row of a table: {error}") from None
    for line, row in rows:
        if None in row:
            raise ValueError(f"{path}, line {line}: must have as many entries as the first line, but it has more")
    return rows


def _match(image: str | None, path: Path, root: Path, wanted: Mapping[str, tuple[str, str]], where: str) -> tuple[str, str]:
    if not image:
        raise ValueError(f"{where}: the column 'image' is empty")
    if _key(image) in wanted:
        return wanted[_key(image)]
    try:
        beside = (path.parent / image).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        beside = ""
    if _key(beside) not in wanted:
        raise ValueError(f"{where}: there is no image {image[:200]!r} in {root}")
    return wanted[_key(beside)]


def _box(row: Mapping[str, str], size: tuple[int, int], where: str) -> list[float]:
    box = []
    for column in COLUMNS[2:]:
        try:
            value = float(row[column])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{where}: {column} must be a number, but it is {row[column]!r}")
        box.append(value)
    x1, y1, x2, y2 = box
    if x2 <= x1 or y2 <= y1:
        raise ValueError(f"{where}: the box must have x2 > x1 and y2 > y1, but it is {_corners(box)}")
    if x1 < 0 or y1 < 0 or x2 > size[0] or y2 > size[1]:
        raise ValueError(f"{where}: the box {_corners(box)} must lie inside the image, which is {size[0]} by {size[1]} pixels")
    return box


def _corners(box: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in box)


def _key(name: str) -> str:
    """Names compare by their composed form: a Mac writes é as two letters, other systems as one."""
    return unicodedata.normalize("NFC", name)


def folder(path: str | Path, boxes: str | Path | None = None, check: bool = False, progress: bool = True) -> ImageSet:
    """The images `path/<class>/<file>`; the classes are the names of the folders, in alphabetical order.

    True boxes come from `boxes`, or from `path/boxes.csv` where that file exists: a table with the columns
    image,label,x1,y1,x2,y2 and one row for each image whose box is known. `image` is `<class>/<file>`, or the path from the table's own
    folder; `label` is the class; the box lies in the upright image. Without a table the set has no boxes.

    Hidden files and files that are not images by their suffix are left aside.
    The header of every image is read, so that a file that is no image is found before any work is done; with `check` all of it, and classes
    of one image are refused (`check_folder`), with a progress bar unless `progress` is false.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for name in ("cat", "dog"):
    ...         Path(path, name).mkdir()
    ...         Image.new("RGB", (6, 4)).save(f"{path}/{name}/1.png")
    ...     table = Path(path, "boxes.csv").write_text("image,label,x1,y1,x2,y2\\ncat/1.png,cat,0,0,3,4\\ndog/1.png,dog,1,1,6,4\\n")
    ...     folder(path).boxes[1].tolist()
    [1.0, 1.0, 6.0, 4.0]
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(f"the folder {root} does not exist")
    if not root.is_dir():
        raise NotADirectoryError(f"{root} must be a folder of images by class, but it is a file")
    if check:
        check_folder(root, progress)
    classes = _class_folders(root)
    files = [(k, file) for k, name in enumerate(classes) for file in _images(root / name)]
    names = [f"{file.parent.name}/{file.name}" for _, file in files]
    labels = [k for k, _ in files]
    sizes = {name: image_size(file) for name, (_, file) in zip(names, files, strict=True)}
    table = Path(boxes) if boxes is not None else root / "boxes.csv"
    has_table = boxes is not None or table.is_file()
    corners = read_box_table(table, root, [classes[k] for k in labels], sizes) if has_table else None
    images = ImageSet([file for _, file in files], classes, labels, corners, names)
    known = f"boxes of {'all' if images.boxed.all() else int(images.boxed.sum())} images from {table}" if has_table else "no boxes"
    log.info("%s: %d images of %d classes, %s", root, len(files), len(classes), known)
    return images


def _class_folders(root: Path) -> list[str]:
    entries = [entry for entry in root.iterdir() if not entry.name.startswith(".")]
    if not entries:
        raise ValueError(f"the folder {root} is empty, but it must hold a folder of images for each class")
    # Archives made on a Mac carry a folder of that name beside the real ones.
    classes = sorted(entry.name for entry in entries if entry.is_dir() and entry.name != "__MACOSX")
    if not classes:
        raise ValueError(f"the folder {root} holds files only, but it must hold a folder of images for each class")
    return classes


def _images(directory: Path) -> list[Path]:
    files = [file for file in directory.iterdir() if file.is_file() and not file.name.startswith(".")]
    images = sorted(file for file in files if file.suffix.lower() in SUFFIXES)
    if not images:
        raise ValueError(f"the class folder {directory} holds no image ({', '.join(SUFFIXES)})")
    if len(images) < len(files):
        log.info("%s: %d files are left aside, since they are not images by their suffix", directory, len(files) - len(images))
    return images


def check_folder(path: str | Path, progress: bool = True) -> None:
    """Open every image `path/<class>/<file>` and count every class; everything that prevents training is refused in one message.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
    ...         Path(root, name).parent.mkdir(exist_ok=True)
    ...         Image.new("L", (4, 3)).save(f"{root}/{name}")
    ...     check_folder(root, progress=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ... cannot be used for training: class 'dog' has 1 image, but needs at least 2
    """
    root, problems, every = Path(path), [], []
    for directory in sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith((".", "__MACOSX"))):
        files = sorted(f for f in directory.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file() and not f.name.startswith("."))
        every += files
        if len(files) < FEWEST:
            problems.append(f"class {directory.name!r} has {len(files)} image{'' if len(files) == 1 else 's'}, but needs at least {FEWEST}")
    refuse(problems + unreadable(every, progress), f"{root} cannot be used for training")


def unreadable(files: Sequence[Path], progress: bool = True) -> list[str]:
    """What is wrong with each of the images that cannot be opened as a whole."""
    problems = []
    for file in tqdm(files, desc="checking", unit="image", disable=not progress):
        try:
            read_image(file)
        except (ValueError, OSError) as error:
            problems.append(str(error))
    return problems


def refuse(problems: Sequence[str], what: str) -> None:
    """One error for all problems, if there are any.

    >>> refuse(["a.jpg is empty", "b.jpg is empty"], "photos/ cannot be used")
    Traceback (most recent call last):
    ValueError: photos/ cannot be used: a.jpg is empty; b.jpg is empty
    """
    if problems:
        more = [f"and {len(problems) - MOST_NAMED} other problems"] if len(problems) > MOST_NAMED else []
        raise ValueError(f"{what}: {'; '.join([*problems[:MOST_NAMED], *more])}")
