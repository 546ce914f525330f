"""Precomputed boxes, and what goes with them, by the names of pictures: an npz that numpy alone can write."""

import unicodedata
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import checked_boxes, checked_counts
from lvmdc.storage import load_arrays


class NamedRows:
    """The rows of an npz that belong to each picture.

    The file holds `images` (n,), the pictures' names, `counts` (n,), how many rows each has, and the boxes (T, 4) of all rows, those
    of one picture after the other's. A picture is found by its name, or by the end of one in the file: `bison/1.jpg` is also
    `images/bison/1.jpg`.

    Args:
        path: the npz.
        boxes: what the boxes are called in it.
        others: further arrays (T, …) with a row for each box.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", images=["cat/1.jpg", "dog/1.jpg"], counts=[1, 2], boxes=[[0, 0, i, i] for i in (1, 2, 3)])
    ...     rows = NamedRows(f"{folder}/a.npz")
    >>> rows.boxes[rows.of("dog/1.jpg")]
    tensor([[0., 0., 2., 2.],
            [0., 0., 3., 3.]])
    """

    def __init__(self, path: str | Path, boxes: str = "boxes", others: tuple[str, ...] = ()):
        self.path = Path(path)
        arrays = load_arrays(self.path, required=("images", "counts", boxes, *others))
        for name, values in arrays.items():
            if values.ndim == 0:
                raise ValueError(f"{self.path}: {name} must have a row for each entry, but it is a single value")
        try:
            images = np.char.decode(arrays["images"], "utf-8") if arrays["images"].dtype.kind == "S" else arrays["images"]
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}: images must be names in UTF-8, but one is not: {error}") from None
        if images.dtype.kind != "U" or images.ndim != 1:
            raise ValueError(f"{self.path}: images must be names of shape (n,), but it is {images.dtype} of shape {images.shape}")
        total = len(arrays[boxes])
        try:
            counts = checked_counts(arrays["counts"], total)
            self.boxes: Tensor = checked_boxes(arrays[boxes], total).to(torch.float32)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.path}: {str(error).replace('features.shape[0]', f'{boxes}.shape[0]')}") from None
        if len(counts) != len(images):
            raise ValueError(f"{self.path}: counts must have one entry for each of the {len(images)} images, but it has {len(counts)}")
        for name in others:
            if len(arrays[name]) != total:
                raise ValueError(f"{self.path}: {name} must have a row for each of the {total} boxes, but it has {len(arrays[name])}")
        self.others = {name: arrays[name] for name in others}
        ends = counts.cumsum(0).tolist()
        self._rows: dict[tuple[str, ...], slice] = {}
        self._by_file: dict[str, list[tuple[str, ...]]] = {}
        for image, start, end in zip(images.tolist(), [0, *ends], ends, strict=False):
            parts = _parts(image)
            if parts in self._rows:
                raise ValueError(f"{self.path}: images must be different names, but {image[:200]!r} is there twice")
            self._rows[parts] = slice(start, end)
            self._by_file.setdefault(parts[-1], []).append(parts)

    def of(self, name: str) -> slice:
        """The rows of a picture; one that the file does not have, or has several of that name, is refused."""
        parts = _parts(name)
        if parts in self._rows:
            return self._rows[parts]
        found = [known for known in self._by_file.get(parts[-1], []) if known[-len(parts) :] == parts]
        if len(found) > 1:
            several = f"{'/'.join(found[0])} and {'/'.join(found[1])}"
            raise ValueError(f"{self.path} must have one entry for the picture {name}, but it has {several}")
        if not found:
            raise ValueError(f"{self.path} must have an entry for every picture, but it has none for {name}")
        return self._rows[found[0]]


def _parts(name: str) -> tuple[str, ...]:
    """A name as the steps of its path, whatever system wrote it: with / or \\, é as one letter or two."""
    steps = unicodedata.normalize("NFC", name).replace("\\", "/").split("/")
    return tuple(step for step in steps if step not in ("", ".")) or ("",)
