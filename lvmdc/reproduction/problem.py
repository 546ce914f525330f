"""The samples of a figure: candidates, truth and near duplicates, in one file that all processes map."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.storage import arrays as storage
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.metrics import true_candidate

REQUIRED, OPTIONAL = ("features", "counts", "boxes", "y", "h", "truth"), ("phi", "prior", "groups")


@dataclass(frozen=True)
class Problem:
    """The samples that runs learn from and are measured on.

    Args:
        candidates: of all samples, with boxes.
        y: (n,) classes.
        h: (n,) the candidate of best overlap with the true box: the truth in every loss.
        truth: (n, 4) the true boxes themselves.
        groups: (n,) near duplicates, which stay on one side of a division; None where there are none.

    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> images = ImageSet([np.zeros((4, 4), np.uint8)] * 2, ["cat", "dog"], [0, 1], boxes=[[1, 0, 3, 2], [0, 0, 4, 2]])
    >>> problem = Problem.of(images, candidates)
    >>> problem.h, len(problem.key)
    (tensor([1, 0]), 64)
    """

    candidates: Candidates
    y: Tensor
    h: Tensor
    truth: Tensor
    groups: Tensor | None = None

    @classmethod
    def of(cls, images: ImageSet, candidates: Candidates) -> Problem:
        """The problem of images whose true boxes are known."""
        if images.boxes is None:
            raise ValueError("data.images must have ground-truth boxes to measure by, but they have none")
        h = true_candidate(candidates, images.boxes)[0]
        return cls(candidates, images.y, h, images.boxes, images.groups)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def key(self) -> str:
        """The SHA-256 of all its numbers: each result is kept for these data alone."""
        key = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            key.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            for block in np.array_split(array, max(1, array.nbytes >> 26)):  # so that a mapped file is not held in memory
                key.update(np.ascontiguousarray(block).tobytes())
        return key.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the npz that `load` maps."""
        storage.save_arrays(path, self._arrays())

    @staticmethod
    def load(path: str | Path) -> Problem:
        """Map what `save` wrote: processes that load one file share its pages."""
        arrays = storage.load_arrays(path, REQUIRED, OPTIONAL, mmap=True)
        candidates = Candidates(arrays["features"], arrays["counts"], arrays["boxes"], arrays.get("phi"), arrays.get("prior"))
        y, h, truth = (torch.from_numpy(np.array(arrays[name])) for name in ("y", "h", "truth"))
        groups = torch.from_numpy(np.array(arrays["groups"])) if "groups" in arrays else None
        return Problem(candidates, y, h, truth, groups)

    def _arrays(self) -> dict[str, np.ndarray]:
        c = self.candidates
        parts = {"features": c.features, "counts": c.counts, "boxes": c.boxes, "phi": c.phi, "prior": c.prior}
        parts |= {"y": self.y, "h": self.h, "truth": self.truth, "groups": self.groups}
        return {name: part.detach().cpu().numpy() for name, part in parts.items() if part is not None}


@lru_cache(maxsize=1)
def loaded(path: str) -> Problem:
    """The problem in a file, opened once in each process.

    >>> loaded("nowhere.npz")
    Traceback (most recent call last):
    FileNotFoundError: nowhere.npz does not exist
    """
    return Problem.load(path)
