"""MNIST digits from their idx files, each turned by an unknown angle."""

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from lvmdc.data.rotations import RotationSet, checked_pair, turned_at_random
from lvmdc.storage import read_bytes

PARTS = ("train", "t10k")  # to train with, to test with


def mnist(path: str | Path, pair: Sequence[int] = (1, 7), seed: int = 0, per_class: int | None = 1000) -> RotationSet:
    """The digits of two classes (or more) from `path/train-images-idx3-ubyte` and its like, plain or `.gz`, divided as they came.

    Each is turned by one of eleven angles from −60° to 60°, as in `rotated_digits`.

    Args:
        per_class: how many of each class are taken from each part, the first ones; None: all.

    >>> mnist("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: nowhere must hold train-images-idx3-ubyte, or the same with .gz, but it does not
    """
    digits = checked_pair(pair)
    if per_class is not None and per_class < 1:
        raise ValueError(f"per_class must be at least 1, or null for all, but it is {per_class}")
    pictures, labels, names, sizes = [], [], [], []
    for part in PARTS:
        images, target = _part(Path(path), part)
        chosen = np.sort(np.concatenate([np.flatnonzero(target == digit)[:per_class] for digit in digits]))
        if len(chosen) == 0:
            raise ValueError(f"{path} must hold digits {digits}, but {part}-labels-idx1-ubyte names none of them")
        pictures.append(images[chosen].astype(np.float32) / 255)
        labels.append(target[chosen])
        names += [f"{part} {i}" for i in chosen]
        sizes.append(len(chosen))
    seen, h = turned_at_random(np.concatenate(pictures), seed)
    y = [digits.index(int(label)) for label in np.concatenate(labels)]
    division = np.arange(sizes[0]), sizes[0] + np.arange(sizes[1])
    return RotationSet(seen, [str(d) for d in digits], y, h, names, None, division)


def read_idx(path: str | Path) -> np.ndarray:
    """The array of an idx file of bytes, plain or `.gz`; one that is cut short, or of another kind, is refused by name.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each of them as four bytes, highest first, then the data.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "two").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]))
    ...     read_idx(f"{folder}/two")
    array([5, 7], dtype=uint8)
    """
    path = Path(path)
    data = read_bytes(path)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} must be an idx file of unsigned bytes, which begins with 0, 0, 8, but it begins with {list(data[:3])}")
    if not 1 <= data[3] <= 4:
        raise ValueError(f"{path} must have one to four dimensions, but it has {data[3]}")
    head = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[k : k + 4], "big") for k in range(4, head, 4))
    if len(data) != head + prod(shape):
        raise ValueError(f"{path} must hold {prod(shape)} bytes for its shape {shape}, but it holds {max(0, len(data) - head)}")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


def _part(root: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for kind, dimensions in (("images", 3), ("labels", 1)):
        stem = f"{part}-{kind}-idx{dimensions}-ubyte"
        file = next((f for f in (root / stem, root / f"{stem}.gz") if f.is_file()), None)
        if file is None:
            raise FileNotFoundError(f"{root} must hold {stem}, or the same with .gz, but it does not")
        array = read_idx(file)
        if array.ndim != dimensions or (dimensions == 3 and not 2 <= array.shape[1] == array.shape[2] <= 1024):
            expected = "(n, s, s) with s from 2 to 1024" if dimensions == 3 else "(n,)"
            raise ValueError(f"{file} must have shape {expected}, but it has shape {array.shape}")
        found.append(array)
    images, labels = found
    if len(images) != len(labels):
        raise ValueError(f"{file} must have one label for each of the {len(images)} {part} images, but it has {len(labels)}")
    if len(labels) and labels.max() > 9:
        raise ValueError(f"{file} must hold digits from 0 to 9, but it holds {labels.max()}")
    return images, labels
