"""Which samples a run learns from, and which it is measured on."""

from dataclasses import dataclass

from torch import Tensor

from lvmdc.data.splits import split_by_class


@dataclass(frozen=True)
class Division:
    """Fold `fold` of the paper's 60/40 divisions by class or, with `inner`, a division of that fold's training part alone.

    Hyperparameters are chosen by inner divisions: what they hold out is never a test sample of the fold.

    Args:
        fold: which of the independent divisions.
        fraction: how much of every class trains.
        seed: of the divisions.
        inner: which division of the training part; None for the fold itself.
        inner_fraction: how much of every class of the training part trains then.

    >>> import torch
    >>> y = torch.tensor([0] * 10 + [1] * 10)
    >>> train, test = Division(fold=0).parts(y)
    >>> kept, held_out = Division(fold=0, inner=1, inner_fraction=0.75).parts(y)
    >>> len(train), len(test), len(kept), len(held_out), set(kept.tolist()) | set(held_out.tolist()) == set(train.tolist())
    (12, 8, 8, 4, True)
    """

    fold: int
    fraction: float = 0.6
    seed: int = 0
    inner: int | None = None
    inner_fraction: float | None = None

    def parts(self, y: Tensor, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Indices of the samples that train and of those held out; near duplicates, of one of the `groups`, stay on one side."""
        train, test = split_by_class(y, self.fraction, self.fold, self.seed, groups)
        if self.inner is None or self.inner_fraction is None:
            return train, test
        own = None if groups is None else groups[train]
        kept, held_out = split_by_class(y[train], self.inner_fraction, self.inner, self.seed + 1 + self.fold, own)
        return train[kept], train[held_out]


def check_divisions(divisions: set[Division], y: Tensor, groups: Tensor | None = None) -> None:
    """Refuse classes too small to be divided, before any learning.

    >>> import torch
    >>> check_divisions({Division(fold=0)}, torch.tensor([0, 0, 1]))
    Traceback (most recent call last):
    ValueError: fold 0: class 1 of y has too few samples to stand in both the training and the test part: 1 samples
    """
    for division in sorted(divisions, key=lambda d: (d.fold, -1 if d.inner is None else d.inner)):
        try:
            division.parts(y, groups)
        except ValueError as error:
            where = f"fold {division.fold}" + ("" if division.inner is None else f", validation fold {division.inner}")
            raise ValueError(f"{where}: {error}") from None
