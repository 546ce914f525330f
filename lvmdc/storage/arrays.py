"""Files: written atomically, read with care. Arrays in npz files that are mapped when large and hold no code.

The layout is NumPy's own: an npz is a zip of .npy members, so `numpy.savez(path, features=…, counts=…)` writes what
`Candidates.load` reads. A member that is stored uncompressed, as `numpy.savez` does, can be mapped where it lies in the zip.

What the package writes has a checksum: the zip's comment holds the SHA-256 of all bytes before it. Checkpoints of torch are zips, too, and
get theirs in the same way. A checksum finds damage; it does not prove who wrote a file.
"""

import errno
import gzip
import hashlib
import json
import math
import os
import secrets
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import psutil
import torch
from torch import Tensor

CHUNK = 1 << 26  # bytes that are copied at a time
MAP_ABOVE = 1 << 28  # bytes; below a quarter of a gigabyte reading is as quick as mapping
MOST_BYTES = 1 << 30  # that a compressed text or idx file may have when it is unpacked; MNIST has 47 MB
CHECKSUM = b"lvmdc sha256 "  # what the comment of a zip with a checksum begins with; 64 hexadecimal digits follow
END = b"PK\5\6"  # the record that ends a zip: 22 bytes, the last two of which are the length of the comment after it
AGAIN = "copy it again from where it came from, or make it again"
FULL = (errno.ENOSPC, errno.EDQUOT)


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
    """As `save_arrays`, for arrays that come in parts, one after the other: they may lie in files, and are never together in memory."""
    with replacing(path) as file:
        _write_joined(path, file, parts)
        add_checksum(file)


def _write_joined(path: str | Path, file: IO[bytes], parts: Sequence[Mapping[str, np.ndarray]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
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
    """The named arrays of an npz, each mapped when it is asked for and let go with it: of thousands of files one is open at a time.

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


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, which takes its place when all went well. Otherwise the file that was there stays as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "new", "a.txt")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "new", "a.txt").read_bytes()
    b'whole'
    """
    path = Path(path)
    # Not tempfile, whose files only their owner may read: others share caches.
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
            raise unwritable(path, error) from error
        raise


def unwritable(path: str | Path, error: OSError) -> OSError:
    """The same error in a sentence: which file could not be written, why, and that the one before is as it was.

    >>> print(unwritable("a.ckpt", OSError(errno.ENOSPC, "No space left on device")))
    [Errno 28] a.ckpt could not be written, since the disk is full: free some space and try again
    """
    why = "the disk is full: free some space and try again" if error.errno in FULL else f"{error.strerror or error}"
    kept = "; the file that was there is unchanged" if os.path.isfile(path) else ""
    return OSError(error.errno, f"{path} could not be written, since {why}{kept}")


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
    """Refuse a zip one of whose parts does not match the CRC that zips have of each: for files without a checksum of the whole."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise DamagedFileError(f"its part {damaged} is damaged; {AGAIN}")


def _digest(file: IO[bytes], size: int) -> bytes:
    found = hashlib.sha256()
    while size > 0:
        part = file.read(min(size, 1 << 20))
        if not part:
            break
        found.update(part)
        size -= len(part)
    return found.hexdigest().encode()


# ---- reading -----------------------------------------------------------------------------------------------------------


def read_json(path: str | Path) -> Any:
    """The content of a JSON file. NaN, infinities, numbers beyond float or int64 and nesting that is too deep are refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.json").write_text('{"loss": 1e400}')
    ...     try:
    ...         read_json(f"{folder}/a.json")
    ...     except ValueError as error:
    ...         print(str(error).removeprefix(folder))
    /a.json must hold finite numbers, but it holds 1e400
    """

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise _NumberError(text)
        return value

    def integer(text: str) -> int:
        if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
            raise _NumberError(text)
        return int(text)

    text = read_text(path)
    try:
        return json.loads(text, parse_float=number, parse_int=integer, parse_constant=number)
    except _NumberError as error:
        raise ValueError(f"{path} must hold finite numbers, but it holds {str(error)[:30]}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


class _NumberError(Exception):
    pass


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; a `.gz` is unpacked, up to a gigabyte.

    >>> read_text("nowhere.txt")
    Traceback (most recent call last):
    FileNotFoundError: nowhere.txt does not exist
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, but byte {error.start} is not") from None


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; a `.gz` is unpacked, up to a gigabyte, so that a small file cannot fill the memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.gz").write_bytes(gzip.compress(b"hello"))
    ...     read_bytes(f"{folder}/a.gz")
    b'hello'
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
    """One member of an npz: a read-only map, or read into memory, as it must be if it was compressed and has no place of its own."""
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
