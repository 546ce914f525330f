"""CandidateSet: samples of any kind that make their candidates themselves, without proposals and features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from PIL import Image
from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates, as_tensor
from lvmdc.joint import JointFeatureMap


class CandidateSet(ABC):
    """n labelled samples, each of which knows what its latent variable may be, and how to show itself.

    Args:
        classes: the K names of the classes.
        y: (n,) class indices in 0..K−1.
        h: (n,) the true candidate of each sample; None where it is not known.
        names: what each sample is called; `sample 0`, … where not given.
        groups: (n,) integers; samples of one group must stay on one side of a split.
        division: the training and the test part as two sets of indices, where the data came divided.
        latent: (K,) whether a class has a latent variable at all; all of them where not given.

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
        """Sample i with all of its candidates to be seen."""

    @abstractmethod
    def places(self, i: int) -> Tensor:
        """(m, 4) where in `image(i)` each of its candidates is: corners x1, y1, x2, y2."""

    def check_joint(self, joint: JointFeatureMap | None) -> None:  # noqa: B027 - most sets have nothing to refuse
        """Refuse a joint feature map that cannot learn these candidates; class blocks, None, and all others will do unless a subclass
        says otherwise."""

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples of {len(self.classes)} classes)"

    def subset(self, index: ArrayLike) -> Self:
        """Some of the samples, in that order, of the same classes; a subclass adds what else it holds of each sample."""
        chosen = as_tensor(index).reshape(-1)
        chosen = chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen.long()
        part = copy.copy(self)
        part.y, part.names, part.division = self.y[chosen], [self.names[i] for i in chosen.tolist()], None
        part.h = None if self.h is None else self.h[chosen]
        part.groups = None if self.groups is None else self.groups[chosen]
        return part
