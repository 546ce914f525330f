"""Arrays on disk: npz files that are mapped when large, hold no code, and never stand half-written.

The layout is NumPy's own: an npz is a zip of .npy members, so `numpy.savez(path, features=…, counts=…)` writes what
`Candidates.load` reads. A member that is stored uncompressed, as `numpy.savez` does, can be mapped where it lies in the zip.
"""

import os
import secrets
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

CHUNK = 1 << 26  # bytes that are copied at a time
MAP_ABOVE = 1 << 28  # bytes; below a quarter of a gigabyte reading is as quick as mapping


def tensor_from_numpy(array: np.ndarray) -> Tensor:
    """`torch.from_numpy` for maps too: they are read-only, and the package only reads them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to a temporary file beside `path` and rename it: a reader sees the old file or the new one."""
    with _replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def save_joined(path: str | Path, parts: Sequence[Mapping[str, np.ndarray]]) -> None:
    """As `save_arrays`, for arrays that come in parts, one after the other: they may lie in files, and are never together in memory."""
    with _replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, first in parts[0].items():
            kind, length = (first.dtype, first.shape[1:]), 0
            for part in parts:
                array = part[name]
                if (array.dtype, array.shape[1:]) != kind:
                    raise ValueError(f"{name!r} must be alike in all parts of {path}, but one is {array.dtype}{array.shape[1:]}")
                length += len(array)
            header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": (length, *kind[1])}
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                rows = max(1, CHUNK // max(1, first[:1].nbytes))
                for part in parts:
                    array = part[name]
                    for start in range(0, len(array), rows):
                        member.write(np.ascontiguousarray(array[start : start + rows]).data)


class Stored(Mapping[str, np.ndarray]):
    """The named arrays of an npz, each mapped when it is asked for and let go with it: of thousands of files one is open at a time."""

    def __init__(self, path: str | Path, names: tuple[str, ...]):
        self.path, self.names = path, names

    def __getitem__(self, name: str) -> np.ndarray:
        return load_arrays(self.path, (name,), mmap=True)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@contextmanager
def _replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, which takes its place when all went well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile, whose files only their owner may read: others share caches.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_arrays(
    path: str | Path, required: tuple[str, ...], optional: tuple[str, ...] = (), mmap: bool | None = None
) -> dict[str, np.ndarray]:
    """The named arrays of an npz. Other members are ignored; a missing one, or a file that is no npz, is refused."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    mapped = path.stat().st_size > MAP_ABOVE if mmap is None else mmap
    try:
        with zipfile.ZipFile(path) as archive:  # not np.load, which takes a file that is no zip for a pickle
            held = [name.removesuffix(".npy") for name in archive.namelist()]
            missing = [name for name in required if name not in held]
            if not missing:
                names = [*required, *(name for name in optional if name in held)]
                return {name: _member(path, archive, name, mapped) for name in names}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not an npz file of plain arrays: {error}") from None
    raise ValueError(f"{path} lacks the array {missing[0]!r}; it holds {sorted(held)}")


def _member(path: Path, archive: zipfile.ZipFile, name: str, mapped: bool) -> np.ndarray:
    """One member of an npz: a read-only map, or read into memory, as it must be if it was compressed and has no place of its own."""
    info = archive.getinfo(f"{name}.npy")
    if not mapped or info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(info.header_offset)
        # The local header of a zip member: 30 bytes, the last four of which are the lengths of its name and extra field.
        name_length, extra_length = struct.unpack("<26xHH", file.read(30))
        file.seek(name_length + extra_length, os.SEEK_CUR)
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError(f"{name!r} holds Python objects, which are not loaded")
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")
