"""Files that never stand half-written, and names that any file system takes."""

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from lvmdc.storage.arrays import replacing

PART_BYTES = 150  # of one part of a name; file systems take 255, and suffixes come on top
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # devices, to Windows, whatever their ending


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write to a temporary file beside `path` and rename it: a reader sees the old file or the new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "new", "a.txt"), b"whole")
    ...     Path(folder, "new", "a.txt").read_bytes()
    b'whole'
    """
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
    """Gives every image a relative path for its drawing: sub-folders and letters of any script stay, and no two are alike.

    What a file system may not take becomes `_`, a way out of the folder is cut off, and a name already given gets a number. Names that
    differ only in case or in the composition of accents count as alike, as they do on macOS and Windows.

    >>> names = SafeNames(".png")
    >>> [str(names.path(name)) for name in ("élans/a?.jpg", "../etc/b", "/B.jpg", "b.jpg")]
    ['élans/a_.jpg.png', 'etc/b.png', 'B.jpg.png', 'b.jpg-2.png']
    """

    def __init__(self, suffix: str):
        self.suffix = suffix
        self._given: set[str] = set()

    def path(self, name: str) -> Path:
        """A path for `name`, never given before."""
        *folders, last = [_safe_part(part) for part in name.split("/") if part not in ("", ".", "..")] or ["_"]
        # A folder must not be called as a drawing may be.
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
