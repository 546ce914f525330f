"""Whole files: written atomically, read with care, under names that any file system takes."""

import errno
import gzip
import json
import math
import os
import re
import secrets
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

MOST_BYTES = 1 << 30  # that a compressed file may have when it is unpacked
FULL = (errno.ENOSPC, errno.EDQUOT)
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")  # of images
PART_BYTES = 150  # of one part of a name; file systems take 255, and suffixes come on top
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # devices on Windows, with any suffix

# ---- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that replaces it on success. Otherwise the file that was there stays as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "new", "a.txt")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "new", "a.txt").read_bytes()
    b'whole'
    """
    path = Path(path)
    # Not tempfile, whose files only their owner may read: caches are shared.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb+") as file:
            yield file
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # a folder that cannot be written to, which the first error says already
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            why = "the disk is full: free some space and try again" if error.errno in FULL else f"{error.strerror or error}"
            kept = "; the file that was there is unchanged" if os.path.isfile(path) else ""
            raise OSError(error.errno, f"{path} could not be written, since {why}{kept}") from error
        raise


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file at once: a reader sees the old file or the new one."""
    with replacing(path) as file:
        file.write(data)


def write_measures(path: str | Path, measures: Mapping[str, float]) -> None:
    """Write names and numbers as JSON; what is not finite, as the mean over no class, is null.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_measures(Path(folder, "a.json"), {"loss": 0.5, "ap": math.nan})
    ...     print(Path(folder, "a.json").read_text())
    {
      "loss": 0.5,
      "ap": null
    }
    """
    plain = {name: value if math.isfinite(value) else None for name, value in measures.items()}
    write_atomically(path, json.dumps(plain, indent=2, allow_nan=False).encode())


class SafeNames:
    """Gives every image a different relative path for its drawing; sub-folders and letters of any script stay.

    An ending among `replaced` is left out. Characters that a file system may not take become `_`, `..` is dropped, and a name that was
    used before gets a number. Names that differ only in case or in the composition of accents count as equal, as they do on macOS and
    Windows.

    >>> names = SafeNames(".png", replaced=(".jpg",))
    >>> [str(names.path(name)) for name in ("élans/a?.jpg", "../etc/b", "/B.JPG", "b.gif", "b.jpg")]
    ['élans/a_.png', 'etc/b.png', 'B.png', 'b.gif.png', 'b-2.png']
    """

    def __init__(self, suffix: str, replaced: tuple[str, ...] = ()):
        self.suffix, self.replaced = suffix, replaced
        self._given: set[str] = set()

    def path(self, name: str) -> Path:
        """A path for `name`, never given before."""
        ending = next((end for end in self.replaced if name.casefold().endswith(end)), "")
        parts = name[: len(name) - len(ending)].split("/")
        *folders, last = [_safe_part(part) for part in parts if part not in ("", ".", "..")] or ["_"]
        # A folder must not have the name of a drawing.
        folders = [f"{part}_" if part.casefold().endswith(self.suffix) else part for part in folders]
        number, path = 1, Path(*folders, last + self.suffix)
        while unicodedata.normalize("NFC", str(path).casefold()) in self._given:
            number += 1
            path = Path(*folders, f"{last}-{number}{self.suffix}")
        self._given.add(unicodedata.normalize("NFC", str(path).casefold()))
        return path


def _safe_part(part: str) -> str:
    part = "".join("_" if c in '<>:"\\|?*' or unicodedata.category(c)[0] == "C" else c for c in unicodedata.normalize("NFC", part))
    part = part.encode()[:PART_BYTES].decode(errors="ignore").rstrip(". ")  # no name ends in these on Windows
    return f"_{part}" if not part or RESERVED.fullmatch(part) else part


# ---- reading -----------------------------------------------------------------------------------------------------------


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; a `.gz` is unpacked, up to a gigabyte, so that a small file cannot fill the memory.

    >>> read_bytes("nowhere.txt")
    Traceback (most recent call last):
    FileNotFoundError: nowhere.txt does not exist
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} must have at most {MOST_BYTES} bytes when it is unpacked, but it has more")
    return data


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; a `.gz` is unpacked, up to a gigabyte."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, but byte {error.start} is not") from None


class _NumberError(Exception):
    pass


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise _NumberError(text)
    return float(text)


def _int64(text: str) -> int:
    if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
        raise _NumberError(text)
    return int(text)


def read_json(path: str | Path) -> Any:
    """The content of a JSON file. NaN, infinities, numbers beyond float or int64 and nesting that is too deep are refused."""
    text = read_text(path)
    try:
        return json.loads(text, parse_float=_finite, parse_int=_int64, parse_constant=_finite)
    except _NumberError as error:
        raise ValueError(f"{path} must hold finite numbers, but it holds {str(error)[:30]}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def inside(folder: Path, name: str, where: str) -> Path:
    """The file `name` of a folder; a name that leads out of it is refused.

    >>> inside(Path("images"), "../secret.png", "cats.json")
    Traceback (most recent call last):
    ValueError: cats.json names '../secret.png', which is not the path of a file inside images
    """
    steps = PurePosixPath(name.replace("\\", "/"))
    unsafe = steps.is_absolute() or Path(name).is_absolute() or Path(name).drive or ".." in steps.parts
    if unsafe or not name.isprintable() or not steps.parts or max(len(part.encode()) for part in steps.parts) > 255:
        raise ValueError(f"{where} names {name[:80]!r}, which is not the path of a file inside {folder}")
    return folder / name
