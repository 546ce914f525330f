"""Features that were computed before, by whatever program."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import as_tensor, check_finite
from lvmdc.features.base import Features
from lvmdc.features.named_rows import NamedRows

TOLERANCE = 0.01  # pixels by which boxes may differ that are the same


class FileFeatures(Features):
    """Features from an npz with the arrays `images` (n,), `counts` (n,), boxes (T, 4) and features (T, d).

    They are for the boxes of the file alone, all of a picture's in their order, as they stand there or cut off at the picture's edge:
    others are refused. Half precision is widened: the numbers are then those that the file has, and sums of them are not rounded.

    Args:
        path: the npz; see `NamedRows` for how pictures are found in it.
        boxes: what the boxes are called in it.
        features: what the features are called in it.

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
        with self.path.open("rb") as file:
            self._digest = hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def n_features(self) -> int:
        """d: the length of a row of the file."""
        return self._numbers.shape[1]

    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        raise TypeError(f"features from the file {self.path} are found by a picture's name: call describe_named(image, name, boxes)")

    def describe_named(self, image: Image.Image, name: str, boxes: Tensor) -> Tensor:
        rows = self._rows.of(name)
        stored = self._rows.boxes[rows]
        if boxes.shape != stored.shape:
            raise ValueError(f"boxes must be the {len(stored)} that {self.path} has for {name}, but {len(boxes)} are asked for")
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
        """The file counts by what is in it, wherever it lies."""
        return {"file": self._digest[:16], **self._names}
