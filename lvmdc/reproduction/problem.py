"""The samples of a figure: candidates, truth and near duplicates, in one file that all processes map."""

from __future__ import annotations

import hashlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.samples import CandidateSet
from lvmdc.storage import arrays as storage
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.metrics import true_candidate

REQUIRED, OPTIONAL = ("features", "counts", "y"), ("boxes", "phi", "prior", "h", "truth", "groups", "train", "test", "joint")


@dataclass(frozen=True)
class Problem:
    """The samples that runs learn from and are measured on.

    Args:
        candidates: of all samples.
        y: (n,) classes.
        h: (n,) the true candidate, for images that of best overlap with the true box: the truth in every loss. None: it is unknown.
        truth: (n, 4) the true boxes themselves; None: there are none.
        groups: (n,) near duplicates, which stay on one side of a division; None where there are none.
        published: the training and the test part, where the data set comes divided.
        joint: how the joint feature map is made, as JSON with a `_target_`; None: class blocks.

    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> images = ImageSet([np.zeros((4, 4), np.uint8)] * 2, ["cat", "dog"], [0, 1], boxes=[[1, 0, 3, 2], [0, 0, 4, 2]])
    >>> problem = Problem.of(images, candidates)
    >>> problem.h, len(problem.key)
    (tensor([1, 0]), 64)
    """

    candidates: Candidates
    y: Tensor
    h: Tensor | None = None
    truth: Tensor | None = None
    groups: Tensor | None = None
    published: tuple[Tensor, Tensor] | None = None
    joint: str | None = None

    @classmethod
    def of(cls, images: ImageSet, candidates: Candidates) -> Problem:
        """The problem of images whose true boxes are known."""
        if images.boxes is None:
            raise ValueError("data.images must have ground-truth boxes to measure by, but they have none")
        if images.division is not None:
            raise ValueError("data.images must come undivided, since a figure divides them by class, but they have a published division")
        h = true_candidate(candidates, images.boxes)[0]
        return cls(candidates, images.y, h, images.boxes, images.groups)

    @classmethod
    def of_samples(cls, samples: CandidateSet, joint: Mapping[str, Any] | None = None) -> Problem:
        """The problem of samples that make their own candidates; `joint` has the `_target_` of their joint feature map and its settings."""
        text = None if joint is None else json.dumps(dict(joint), sort_keys=True)
        return cls(samples.candidates(), samples.y, samples.h, None, samples.groups, samples.division, text)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_classes(self) -> int:
        """K, by the labels."""
        return int(self.y.max()) + 1

    def joint_map(self) -> JointFeatureMap:
        """The joint feature map that every method learns with.

        >>> Problem(Candidates(torch.zeros(2, 1), [1, 1]), torch.tensor([0, 1])).joint_map().n_classes
        2
        """
        return ClassBlocks(self.n_classes) if self.joint is None else made(self.joint)

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
        candidates = Candidates(*(arrays.get(name) for name in ("features", "counts", "boxes", "phi", "prior")))
        names = ("y", "h", "truth", "groups", "train", "test")
        y, h, truth, groups, train, test = (torch.from_numpy(np.array(arrays[name])) if name in arrays else None for name in names)
        assert y is not None
        published = None if train is None or test is None else (train, test)
        joint = bytes(arrays["joint"]).decode() if "joint" in arrays else None
        return Problem(candidates, y, h, truth, groups, published, joint)

    def _arrays(self) -> dict[str, np.ndarray]:
        c = self.candidates
        parts = {"features": c.features, "counts": c.counts, "boxes": c.boxes, "phi": c.phi, "prior": c.prior}
        parts |= {"y": self.y, "h": self.h, "truth": self.truth, "groups": self.groups}
        parts |= {} if self.published is None else dict(zip(("train", "test"), self.published, strict=True))
        parts |= {} if self.joint is None else {"joint": torch.frombuffer(bytearray(self.joint.encode()), dtype=torch.uint8)}
        return {name: part.detach().cpu().numpy() for name, part in parts.items() if part is not None}


def made(spec: str) -> Any:
    """The object that JSON such as `{"_target_": "lvmdc.OverlapLoss"}` describes.

    >>> made('{"_target_": "lvmdc.OverlapLoss"}')
    OverlapLoss()
    """
    arguments = json.loads(spec)
    return pkgutil.resolve_name(arguments.pop("_target_"))(**arguments)


@lru_cache(maxsize=1)
def loaded(path: str) -> Problem:
    """The problem in a file, opened once in each process.

    >>> loaded("nowhere.npz")
    Traceback (most recent call last):
    FileNotFoundError: nowhere.npz does not exist
    """
    return Problem.load(path)
