"""Precomputed boxes and features by the names of images: an npz that numpy alone can write."""

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import as_tensor, check_finite, checked_counts
from lvmdc.boxes import checked_boxes
from lvmdc.storage.arrays import load_arrays
from lvmdc.vision.features.base import Features

TOLERANCE = 0.01  # pixels by which equal boxes may differ


class NamedRows:
    """The rows of an npz that belong to each image.

    The file holds `images` (n,), names, `counts` (n,), the number of rows of each, and the boxes (T, 4) of all rows, those of one image
    after the other. An image is found by its name, or by the end of a name in the file: `bison/1.jpg` is also `images/bison/1.jpg`.

    Args:
        path: the npz.
        boxes: the name of the boxes in it.
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
        with self.path.open("rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
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
                raise ValueError(f"{self.path}: images must be different names, but {image[:200]!r} occurs twice")
            self._rows[parts] = slice(start, end)
            self._by_file.setdefault(parts[-1], []).append(parts)

    def of(self, name: str) -> slice:
        """The rows of an image; a name that the file does not have, or has several times, is refused."""
        parts = _parts(name)
        if parts in self._rows:
            return self._rows[parts]
        found = [known for known in self._by_file.get(parts[-1], []) if known[-len(parts) :] == parts]
        if len(found) > 1:
            several = f"{'/'.join(found[0])} and {'/'.join(found[1])}"
            raise ValueError(f"{self.path} must have one entry for the image {name}, but it has {several}")
        if not found:
            raise ValueError(
                f"{self.path} must have an entry for every image, but it has none for {name}: "
                "give a file that was made for these images, or choose other proposals= and features="
            )
        return self._rows[found[0]]


def _parts(name: str) -> tuple[str, ...]:
    """A name as the steps of its path, whatever system wrote it: with / or \\, é as one code point or two."""
    steps = unicodedata.normalize("NFC", name).replace("\\", "/").split("/")
    return tuple(step for step in steps if step not in ("", ".")) or ("",)


class FileFeatures(Features):
    """Features from an npz with the arrays `images` (n,), `counts` (n,), boxes (T, 4) and features (T, d).

    They are for the boxes of the file alone, all of an image's in their order, as they are or cut at the image's edge: others are refused.
    Half precision is widened to float32.

    Args:
        path: the npz; see `NamedRows` for how images are found in it.
        boxes: the name of the boxes in it.
        features: the name of the features in it.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", images=["cat.jpg"], counts=[2], boxes=[[0, 0, 3, 2], [1, 0, 4, 2]], features=[[5.0], [6.0]])
    ...     features = FileFeatures(f"{folder}/a.npz")
    >>> features.describe_named(Image.new("RGB", (4, 2)), "cat.jpg", torch.tensor([[0.0, 0, 3, 2], [1, 0, 4, 2]]))
    tensor([[5.],
            [6.]])
    """

    def __init__(self, path: str | Path, boxes: str = "boxes", features: str = "features"):
        self.path, self._names = Path(path), {"boxes": boxes, "features": features}
        self._rows = NamedRows(path, boxes, others=(features,))
        try:
            self._numbers = as_tensor(self._rows.others[features])
        except TypeError as error:
            raise ValueError(f"{path}: {features}: {error}") from None
        if self._numbers.dim() != 2:
            raise ValueError(f"{path}: {features} must have shape (T, d), but it has shape {tuple(self._numbers.shape)}")
        check_finite(f"{path}: {features}", self._numbers)

    @property
    def n_features(self) -> int:
        """d: the length of a row of the file."""
        return self._numbers.shape[1]

    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        raise TypeError(f"features from the file {self.path} are found by an image's name: call describe_named(image, name, boxes)")

    def describe_named(self, image: Image.Image, name: str, boxes: Tensor) -> Tensor:
        rows = self._rows.of(name)
        stored = self._rows.boxes[rows]
        if boxes.shape != stored.shape:
            raise ValueError(f"boxes must be the {len(stored)} that {self.path} has for {name}, but {len(boxes)} are requested")
        edge = torch.tensor([image.width, image.height] * 2)
        asked = boxes.to(stored)
        cut_off = torch.minimum(stored, edge.to(stored)).clamp(min=0)
        apart = torch.minimum((asked - stored).abs().amax(dim=1), (asked - cut_off).abs().amax(dim=1))
        if bool((apart > TOLERANCE).any()):
            i = int((apart > TOLERANCE).nonzero()[0])
            differs = f"boxes[{i}] is {boxes[i].tolist()} instead of {stored[i].tolist()}"
            raise ValueError(f"boxes must be those that {self.path} has for {name}, but {differs}")
        return self._numbers[rows].to(torch.float32)

    def settings(self) -> dict[str, Any]:
        """The file counts by its content, not by its path."""
        return {"file": self._rows.digest, **self._names}
