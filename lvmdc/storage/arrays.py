"""Arrays in npz files that are mapped when large and hold no code.

The layout is NumPy's: an npz is a zip of .npy members, so `numpy.savez(path, features=…, counts=…)` writes what `Candidates.load` reads.
A member that is stored uncompressed, as `numpy.savez` does, can be mapped where it lies in the zip.

What the package writes has a checksum: the zip's comment holds the SHA-256 of all bytes before it. Checkpoints of torch, which are zips,
too, get theirs in the same way. A checksum finds damage; it does not prove who wrote a file.
"""

import hashlib
import math
import os
import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import psutil
import torch
from torch import Tensor

from lvmdc.storage.files import replacing

CHUNK = 1 << 26  # bytes that are copied at a time
MAP_ABOVE = 1 << 28  # bytes; smaller files are read as quickly as they are mapped
CHECKSUM = b"lvmdc sha256 "  # what the comment of a zip with a checksum begins with; 64 hexadecimal digits follow
END = b"PK\5\6"  # the record that ends a zip: 22 bytes, the last two of which are the length of the comment after it
AGAIN = "copy it again from its source, or make it again"


class DamagedFileError(ValueError):
    """A file does not have the content that it was written with."""


def tensor_from_numpy(array: np.ndarray) -> Tensor:
    """`torch.from_numpy` for maps too: they are read-only, and the package only reads them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays with a checksum; a reader sees the old file or the new one, whole."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)
        add_checksum(file)


def save_joined(path: str | Path, parts: Sequence[Mapping[str, np.ndarray]]) -> None:
    """As `save_arrays`, for arrays whose rows come in parts, one after the other, which may be files: never together in memory."""
    with replacing(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, first in parts[0].items():
                kinds = [(part[name].dtype, part[name].shape[1:]) for part in parts]
                wrong = [kind for kind in kinds if kind != kinds[0]]
                if wrong:
                    raise ValueError(f"{name!r} must have one type in all parts of {path}, but one is {wrong[0][0]}{wrong[0][1]}")
                shape = (sum(len(part[name]) for part in parts), *kinds[0][1])
                header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": shape}
                rows = max(1, CHUNK // max(1, first[:1].nbytes))
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    for array in (part[name] for part in parts):
                        for start in range(0, len(array), rows):
                            member.write(np.ascontiguousarray(array[start : start + rows]).data)
        add_checksum(file)


class Stored(Mapping[str, np.ndarray]):
    """The named arrays of an npz, each mapped only while it is used, so that thousands of files are not open at once.

    The checksum is verified once, here.
    """

    def __init__(self, path: str | Path, names: tuple[str, ...]):
        self.path, self.names = path, names
        verify_checksum(path)

    def __getitem__(self, name: str) -> np.ndarray:
        return load_arrays(self.path, (name,), mmap=True, verify=False)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


# ---- checksums ---------------------------------------------------------------------------------------------------------


def add_checksum(file: IO[bytes]) -> None:
    """Add the checksum to a zip that was just written, open for reading and writing."""
    file.flush()
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 22)
    end = file.read(22)
    if end[:4] != END or end[20:] != b"\0\0":
        raise ValueError("only a zip without a comment can be given a checksum")
    file.seek(size - 2)
    file.write(struct.pack("<H", len(CHECKSUM) + 64))
    file.flush()
    file.seek(0)
    digest = _digest(file, size)
    file.seek(size)
    file.write(CHECKSUM + digest)


def verify_checksum(path: str | Path, kind: str = "an npz file of plain arrays") -> bool:
    """Whether a zip has a checksum. One that does not match the content is refused, and so is a file that does not end as a zip does.

    Args:
        kind: what the file should be, for the message.
    """
    wrong = f"{path} is damaged or not {kind}"
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail = 22 + len(CHECKSUM) + 64
        file.seek(max(0, size - tail))
        last = file.read()
        if last[-22:-18] == END and last[-2:] == b"\0\0":
            return False
        whole = len(last) == tail and last[:4] == END and last[20:22] == struct.pack("<H", len(CHECKSUM) + 64)
        if not whole or last[22:].removeprefix(CHECKSUM) == last[22:]:
            raise DamagedFileError(f"{wrong}: it does not end as one; {AGAIN}")
        file.seek(0)
        if _digest(file, size - 64 - len(CHECKSUM)) != last[-64:]:
            raise DamagedFileError(f"{wrong}: its content does not match its checksum; {AGAIN}")
    return True


def check_parts(path: str | Path) -> None:
    """Refuse a zip with a part that does not match its CRC: for files without a checksum of the whole."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise DamagedFileError(f"its part {damaged} is damaged; {AGAIN}")


def _digest(file: IO[bytes], size: int) -> bytes:
    found = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, 1 << 20))):
        found.update(part)
        size -= len(part)
    return found.hexdigest().encode()


def load_arrays(
    path: str | Path, required: tuple[str, ...], optional: tuple[str, ...] = (), mmap: bool | None = None, verify: bool = True
) -> dict[str, np.ndarray]:
    """The named arrays of an npz. Other members are ignored; a missing one, or a file that is no npz, is refused.

    With `verify`, a checksum is verified where the file has one.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    mapped = path.stat().st_size > MAP_ABOVE if mmap is None else mmap
    try:
        if verify:
            verify_checksum(path)
        with zipfile.ZipFile(path) as archive:  # not np.load, which takes a file that is no zip for a pickle
            held = [name.removesuffix(".npy") for name in archive.namelist()]
            missing = [name for name in required if name not in held]
            if not missing:
                names = [*required, *(name for name in optional if name in held)]
                return {name: _member(path, archive, name, mapped) for name in names}
    except DamagedFileError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for a damaged file
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} is damaged or not an npz file of plain arrays: {reason}") from None
    raise ValueError(f"{path} lacks the array {missing[0]!r}; it holds {sorted(held)}")


def _member(path: Path, archive: zipfile.ZipFile, name: str, mapped: bool) -> np.ndarray:
    """One member of an npz: a read-only map, or, if it is compressed, read into memory."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        shape, fortran, dtype = _header(member)
        if dtype.hasobject:
            raise ValueError(f"{name!r} holds Python objects, which are not loaded")
        start, expected = member.tell(), math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or info.file_size != start + expected:
            raise ValueError(f"{name!r} must hold {expected} bytes for its shape {shape}, but it holds {info.file_size - start}")
    if not mapped or info.compress_type != zipfile.ZIP_STORED:
        free = psutil.virtual_memory().available
        if expected > free:
            raise ValueError(f"{name!r} needs {expected} bytes of memory, but {free} are free; uncompressed, it can be mapped")
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    if expected == 0:
        return np.empty(shape, dtype)
    with path.open("rb") as file:
        file.seek(info.header_offset)
        # The local header of a zip member: 30 bytes, the last four of which are the lengths of its name and extra field.
        name_length, extra_length = struct.unpack("<26xHH", file.read(30))
    first = info.header_offset + 30 + name_length + extra_length + start
    return np.memmap(path, dtype, "r", first, shape, "F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"it has version {version} of NumPy's format, which is not known")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)
