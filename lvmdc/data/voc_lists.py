"""Lists of pictures, and the files of a devkit, of PASCAL VOC."""

from collections.abc import Iterator
from pathlib import Path

from lvmdc.storage import read_text


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the words of each line of a list that is not empty."""
    if not path.is_file():
        raise FileNotFoundError(f"the list {path} does not exist")
    lines = read_text(path).splitlines()
    return ((i, line.split()) for i, line in enumerate(lines, start=1) if line.strip())


def listed(path: Path) -> list[str]:
    """The pictures that a list names, each once: it may have a line for every object.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "train.txt").write_text("2011_1 1\\n2011_1 2\\n2011_7 1\\n")
    ...     listed(Path(folder, "train.txt"))
    ['2011_1', '2011_7']
    """
    keys = list(dict.fromkeys(words[0] for _, words in rows_of(path)))
    if not keys:
        raise ValueError(f"{path} must name the pictures of the split, but it is empty")
    outside = [key for key in keys if Path(key).name != key or "\\" in key or not key.isprintable() or len(key) > 200]
    if outside:
        raise ValueError(f"{path} must name pictures without their folder, but it has {outside[0][:80]!r}")
    return keys


def voc_files(folder: Path, keys: list[str], suffix: str, lists: str) -> list[Path]:
    """The file of each picture in a folder of the devkit; those that are missing are named, with the lists that have them.

    >>> voc_files(Path("nowhere"), ["2011_1"], ".jpg", "train.txt")
    Traceback (most recent call last):
    FileNotFoundError: train.txt names nowhere/2011_1.jpg, which does not exist (1 of 1 files are missing in nowhere)
    """
    files = [folder / f"{key}{suffix}" for key in keys]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{lists} names {missing[0]}, which does not exist ({len(missing)} of {len(files)} files are missing in {folder})"
        )
    return files
