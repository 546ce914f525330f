"""From pictures to candidates, one picture after the other."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import check_finite, checked_boxes
from lvmdc.candidates import Candidates
from lvmdc.data.sources import Sources
from lvmdc.features.base import Features
from lvmdc.priors.base import Prior
from lvmdc.proposals.base import Proposals


class Describer:
    """Makes candidates of pictures, all with features of one length; what breaks its word is refused with the picture.

    >>> from lvmdc.data import cluttered_digits
    >>> from lvmdc.features import HOG
    >>> from lvmdc.proposals import WindowGrid
    >>> Describer(cluttered_digits(per_class=1), WindowGrid(), HOG())([4, 0])
    Candidates(2 samples, 50 candidates of 324 features, boxes, torch.float32, cpu)
    """

    def __init__(self, pictures: Sources, proposals: Proposals, features: Features, prior: Prior | None = None):
        self.pictures, self.proposals, self.features, self.prior = pictures, proposals, features, prior
        self._length: int | None = None

    def __call__(self, which: Iterable[int]) -> Candidates:
        """The candidates of some pictures, in that order."""
        described, placed, counts, weights = _Rows(), _Rows(), [], []
        for i in which:
            boxes, numbers, likely = self._one(i)
            described.append(numbers)
            placed.append(boxes)
            counts.append(len(boxes))
            weights += [] if likely is None else [likely]
        return Candidates(described.all(), counts, placed.all(), prior=torch.cat(weights) if weights else None)

    def _one(self, i: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """(m, 4), (m, d), (m,): the boxes of a picture, their features and log weights."""
        image, name = self.pictures.image(i), self.pictures.names[i]
        boxes = self.proposals.boxes(image, name)
        if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) == 0:
            raise ValueError(f"{self.proposals!r} must give {name} boxes of shape (m, 4) with m ≥ 1, but gave shape {tuple(boxes.shape)}")
        numbers = self.features.describe_named(image, name, boxes)
        self._length = self._length or numbers.shape[-1]
        expected = (len(boxes), self._length)
        if numbers.shape != expected:
            raise ValueError(f"{self.features!r} must give {name} features of shape {expected}, but gave shape {tuple(numbers.shape)}")
        try:
            checked_boxes(boxes, len(boxes))
            check_finite("features", numbers)
            weights = None if self.prior is None else self.prior(image, boxes)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return boxes, numbers, weights


class _Rows:
    """Rows that come bit by bit. Joined from a list at the end they would stand in memory twice; here a quarter is spare at most."""

    def __init__(self) -> None:
        self.length, self._used, self._held = 0, 0, np.empty((0, 0), np.float32)

    def append(self, rows: Tensor) -> None:
        if self.length == 0:
            self.length, self._held = rows.shape[1], np.empty(rows.shape, rows.numpy(force=True).dtype)
        end = self._used + len(rows)
        if end > len(self._held):
            # Grows in place where the system can move pages rather than copy them; nothing else refers to the array.
            self._held.resize((max(end, len(self._held) * 5 // 4), self.length), refcheck=False)
        self._held[self._used : end] = rows.numpy(force=True)
        self._used = end

    def all(self) -> Tensor:
        """Everything, once: the array is handed over."""
        self._held.resize((self._used, self.length), refcheck=False)
        return torch.from_numpy(self._held)
