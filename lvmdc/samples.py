"""Training and test parts of a data set, and samples of any kind that make their own candidates."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.storage.arrays import load_arrays


def split_by_class(
    y: ArrayLike, fraction: float = 0.6, fold: int = 0, seed: int = 0, groups: ArrayLike | None = None
) -> tuple[Tensor, Tensor]:
    """Indices of a training and a test part, both sorted; `fraction` of every class trains.

    Each `fold` is an independent random division, as in the paper's five folds. Samples of one group stay on one side; a class may then
    train with a few samples fewer than its share. A class that cannot be on both sides is refused.

    >>> train, test = split_by_class([0] * 5 + [1] * 10)
    >>> len(train), len(test)
    (9, 6)
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must lie between 0 and 1, but it is {fraction}")
    labels = as_tensor(y).cpu().numpy()
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"y must have shape (n,) with n ≥ 1, but it has shape {labels.shape}")
    classes, label = np.unique(labels, return_inverse=True)
    units = _units(len(label), groups)
    size = np.bincount(label)
    room = np.clip(np.round(fraction * size).astype(int), 1, np.maximum(size - 1, 1))  # what each class may still train with
    needed = np.stack([np.bincount(label[unit], minlength=len(classes)) for unit in units])  # (units, K)
    trains = np.zeros(len(units), bool)
    order = np.random.default_rng([seed, fold]).permutation(len(units))
    for u in order:
        if (needed[u] <= room).all():
            trains[u] = True
            room = room - needed[u]
    for k, name in enumerate(classes):
        if not needed[trains, k].any():  # all its groups are larger than its share: the smallest one trains
            own = order[needed[order, k] > 0]
            trains[own[needed[own].sum(axis=1).argmin()]] = True
        if not needed[~trains, k].any():
            of = "samples" if groups is None else "groups"
            raise ValueError(f"class {name} of y has too few {of} to be in both the training and the test part: {size[k]} samples")
    side = np.zeros(len(label), bool)
    side[np.concatenate([units[u] for u in np.flatnonzero(trains)])] = True
    return torch.from_numpy(np.flatnonzero(side)), torch.from_numpy(np.flatnonzero(~side))


def _units(n: int, groups: ArrayLike | None) -> list[np.ndarray]:
    """The samples that must stay together, as lists of indices."""
    if groups is None:
        return [np.array([i]) for i in range(n)]
    group = as_tensor(groups).cpu().numpy()
    if group.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), that of y, but it has shape {group.shape}")
    _, inverse = np.unique(group, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    return np.split(order, np.cumsum(np.bincount(inverse))[:-1])


def published_split(path: str | Path, fold: int, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Indices of the training and the test part of a fold, counted from 0, for samples of these names.

    The file is an npz with `images`, the names of its samples, and for each fold k = fold + 1 the arrays `train_k` and `test_k`, which
    count them from 0, such as mammals/hog.npz.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", images=["a", "b", "c"], train_1=[0, 2], test_1=[1])
    ...     published_split(f"{folder}/a.npz", 0, ["c", "b", "a"])
    (tensor([2, 0]), tensor([1]))
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"split: {path} does not exist")
    parts = f"train_{fold + 1}", f"test_{fold + 1}"
    arrays = load_arrays(path, ("images",), parts, mmap=False)
    if lacking := [part for part in parts if part not in arrays]:
        raise ValueError(f"split: {path} must hold {lacking[0]} for data.fold={fold}, but it does not")
    images, train, test = (arrays[name] for name in ("images", *parts))
    if images.ndim != 1 or images.dtype.kind not in "US":
        raise ValueError(f"split: images of {path} must be names of shape (n,), but it is {images.dtype} of shape {images.shape}")
    images = np.char.decode(images, "utf-8", "replace") if images.dtype.kind == "S" else images
    places = {name: i for i, name in enumerate(names)}
    found = [places.get(str(name), -1) for name in images]
    for part, index in (("train", train), ("test", test)):
        if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0 or index.min() < 0 or index.max() >= len(found):
            raise ValueError(f"split: {part}_{fold + 1} of {path} must count its {len(found)} images from 0, but it does not")
        missing = [str(images[i]) for i in index if found[i] < 0]
        if missing:
            raise ValueError(f"split: {path} names {missing[0]}, which is not among the samples")
    if set(train.tolist()) & set(test.tolist()):
        raise ValueError(f"split: train_{fold + 1} and test_{fold + 1} of {path} must share no image, but they do")
    return torch.tensor([found[i] for i in train]), torch.tensor([found[i] for i in test])


class CandidateSet(ABC):
    """n labelled samples that make their own candidates, and images of them.

    Args:
        classes: the K names of the classes.
        y: (n,) class indices in 0..K−1.
        h: (n,) the true candidate of each sample; None: unknown.
        names: of the samples; default `sample 0`, ….
        groups: (n,) integers; samples of one group must stay on one side of a split.
        division: the published training and test part, as two sets of indices, if any.
        latent: (K,) whether a class has a latent variable; default all.

    A subclass names in `per_sample` its attributes with one entry per sample, so that `subset` includes them.

    >>> class Coins(CandidateSet):  # which of the two sides is up
    ...     def candidates(self):
    ...         return Candidates(torch.eye(2).repeat(len(self), 1), [2] * len(self))
    ...     def image(self, i):
    ...         return Image.new("RGB", (64, 32))
    ...     def places(self, i):
    ...         return torch.tensor([[0.0, 0.0, 32.0, 32.0], [32.0, 0.0, 64.0, 32.0]])
    >>> coins = Coins(["fair", "unfair"], [0, 1, 1])
    >>> coins, coins.subset([2, 0]).names
    (Coins(3 samples of 2 classes), ['sample 2', 'sample 0'])
    """

    per_sample: tuple[str, ...] = ()

    def __init__(
        self,
        classes: Sequence[str],
        y: ArrayLike,
        h: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        division: tuple[ArrayLike, ArrayLike] | None = None,
        latent: Sequence[bool] | None = None,
    ):
        self.classes, self.y = list(classes), as_tensor(y).long()
        n = len(self.y)
        if n == 0 or self.y.dim() != 1 or not bool(((self.y >= 0) & (self.y < len(self.classes))).all()):
            raise ValueError(f"y must hold at least one class index, each in 0..{len(self.classes) - 1}")
        self.names = [f"sample {i}" for i in range(n)] if names is None else list(names)
        self.h = None if h is None else as_tensor(h).long()
        self.groups = None if groups is None else as_tensor(groups).long()
        for name, values in (("names", self.names), ("h", self.h), ("groups", self.groups)):
            if values is not None and len(values) != n:
                raise ValueError(f"{name} must have one entry for each of the {n} samples, but it has {len(values)}")
        self.division = None if division is None else (as_tensor(division[0]).long(), as_tensor(division[1]).long())
        self.latent = [True] * len(self.classes) if latent is None else list(latent)

    @abstractmethod
    def candidates(self) -> Candidates:
        """What the latent variable of each sample may be."""

    @abstractmethod
    def image(self, i: int) -> Image.Image:
        """Sample i, with all of its candidates visible."""

    @abstractmethod
    def places(self, i: int) -> Tensor:
        """(m, 4) the corners x1, y1, x2, y2 of each candidate in `image(i)`."""

    def check_joint(self, joint: JointFeatureMap | None) -> None:  # noqa: B027 - most sets have nothing to refuse
        """Refuse a joint feature map that does not fit these candidates; by default none (None: class blocks)."""

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples of {len(self.classes)} classes)"

    def subset(self, index: ArrayLike) -> Self:
        """Some of the samples, by integers or a mask, in that order, of the same classes."""
        chosen = as_tensor(index).reshape(-1)
        chosen = (chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen.long()).cpu()
        part = copy.copy(self)
        part.division = None
        for name in ("y", "names", "h", "groups", *self.per_sample):
            values = getattr(self, name)
            if values is not None:
                setattr(part, name, [values[i] for i in chosen.tolist()] if isinstance(values, list) else values[chosen.numpy()])
        return part
