"""One's own data: a folder of pictures by class, with or without a table of boxes."""

import logging
from pathlib import Path

from lvmdc.data.box_table import read_box_table
from lvmdc.data.pictures import PictureSet
from lvmdc.data.reading import SUFFIXES, picture_size

log = logging.getLogger(__name__)


def folder(path: str | Path, boxes: str | Path | None = None) -> PictureSet:
    """The pictures `path/<class>/<file>`; the classes are the names of the folders, in alphabetical order.

    True boxes come from `boxes`, or from `path/boxes.csv` where that file exists: a table with the columns
    image,label,x1,y1,x2,y2 and one row for each picture. `image` is `<class>/<file>`, or the path from the table's own folder;
    `label` is the class; the box lies in the upright picture. Without a table the set has no boxes.

    Hidden files and files that are not pictures by their suffix are left aside.
    Every picture's head is read, so that a file that is no picture is found before any work is done.

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
        raise NotADirectoryError(f"{root} must be a folder of pictures by class, but it is a file")
    classes = _class_folders(root)
    files = [(k, file) for k, name in enumerate(classes) for file in _pictures(root / name)]
    names = [f"{file.parent.name}/{file.name}" for _, file in files]
    labels = [k for k, _ in files]
    sizes = {name: picture_size(file) for name, (_, file) in zip(names, files, strict=True)}
    table = Path(boxes) if boxes is not None else root / "boxes.csv"
    has_table = boxes is not None or table.is_file()
    corners = read_box_table(table, root, [classes[k] for k in labels], sizes) if has_table else None
    log.info("%s: %d pictures of %d classes, %s", root, len(files), len(classes), f"boxes from {table}" if corners else "no boxes")
    return PictureSet([file for _, file in files], classes, labels, corners, names)


def _class_folders(root: Path) -> list[str]:
    entries = [entry for entry in root.iterdir() if not entry.name.startswith(".")]
    if not entries:
        raise ValueError(f"the folder {root} is empty, but it must hold a folder of pictures for each class")
    # Archives made on a Mac carry a folder of that name beside the real ones.
    classes = sorted(entry.name for entry in entries if entry.is_dir() and entry.name != "__MACOSX")
    if not classes:
        raise ValueError(f"the folder {root} holds files only, but it must hold a folder of pictures for each class")
    return classes


def _pictures(directory: Path) -> list[Path]:
    files = [file for file in directory.iterdir() if file.is_file() and not file.name.startswith(".")]
    pictures = sorted(file for file in files if file.suffix.lower() in SUFFIXES)
    if not pictures:
        raise ValueError(f"the class folder {directory} holds no picture ({', '.join(SUFFIXES)})")
    if len(pictures) < len(files):
        log.info("%s: %d files are left aside, since they are not pictures by their suffix", directory, len(files) - len(pictures))
    return pictures
