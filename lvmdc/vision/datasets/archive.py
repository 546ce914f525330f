"""The files of a folder, a zip or a tar archive, read in the same way."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lvmdc.storage.files import MOST_BYTES

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(RuntimeError, NotImplementedError, ValueError, OverflowError, KeyError, IndexError),
)


@dataclass(frozen=True)
class Source:
    """The names of the plain files, with /, in the order in which reading is fast, and their bytes.

    Nothing is unpacked: the caller chooses where a file goes, so that no name in an archive leads out of a folder.
    """

    path: Path
    files: list[str]
    _read: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        """The bytes of a file; a damaged one is refused by name."""
        try:
            return self._read(name)
        except DAMAGED as error:
            raise ValueError(f"source: {name} in {self.path} cannot be read: {error}") from None


@contextmanager
def open_source(path: str | Path) -> Iterator[Source]:
    """A folder, a zip or a tar archive, compressed or not, without hidden files and folders, and without links in archives."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"source: {path} does not exist")
    if path.is_dir():
        files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        yield Source(path, _shown(files), lambda name: (path / name).read_bytes())
        return
    try:
        archive = zipfile.ZipFile(path) if zipfile.is_zipfile(path) else tarfile.open(path)  # noqa: SIM115
    except DAMAGED as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise ValueError(f"source: {path} is damaged, or not a folder, a zip or a tar archive: {reason}") from None
    with archive:
        if isinstance(archive, zipfile.ZipFile):
            zipped = archive
            names = [info.filename for info in archive.infolist() if info.filename and not info.filename.endswith("/")]
            yield Source(path, _shown(names), lambda name: _limited(zipped.open(name)))
        else:
            members = _members(archive, path)
            yield Source(path, _shown(list(members)), lambda name: _content(archive, members[name]))


def _shown(names: list[str]) -> list[str]:
    return [name for name in names if not any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))]


def _members(archive: tarfile.TarFile, path: Path) -> dict[str, tarfile.TarInfo]:
    try:
        return {member.name: member for member in archive if member.isreg()}
    except DAMAGED as error:  # an archive that was cut off
        raise ValueError(f"source: {path} is damaged: {error}") from None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # plain files only
    return _limited(file)


def _limited(file: IO[bytes]) -> bytes:
    with file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return data
