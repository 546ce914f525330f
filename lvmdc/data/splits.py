"""Training and test parts of a data set."""

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import ArrayLike, as_tensor


def split_by_class(
    y: ArrayLike, fraction: float = 0.6, fold: int = 0, seed: int = 0, groups: ArrayLike | None = None
) -> tuple[Tensor, Tensor]:
    """Indices of a training and a test part, both sorted; `fraction` of every class trains.

    Each `fold` is an independent random division, as in the paper's five folds. Samples of one of the `groups` stay on one side; a
    class may then train with a few samples fewer than its share. A class that cannot stand on both sides is refused.

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
        if not needed[trains, k].any():  # its groups are all larger than its share: the smallest one trains
            own = order[needed[order, k] > 0]
            trains[own[needed[own].sum(axis=1).argmin()]] = True
        if not needed[~trains, k].any():
            of = "samples" if groups is None else "groups"
            raise ValueError(f"class {name} of y has too few {of} to stand in both the training and the test part: {size[k]} samples")
    side = np.zeros(len(label), bool)
    side[np.concatenate([units[u] for u in np.flatnonzero(trains)])] = True
    return torch.from_numpy(np.flatnonzero(side)), torch.from_numpy(np.flatnonzero(~side))


def folds(
    y: ArrayLike, n_folds: int = 5, fraction: float = 0.6, seed: int = 0, groups: ArrayLike | None = None
) -> list[tuple[Tensor, Tensor]]:
    """The divisions of folds 0..n_folds−1, each as `split_by_class` makes it. Test parts of two folds may overlap.

    >>> [len(train) for train, test in folds([0] * 5 + [1] * 10, n_folds=3)]
    [9, 9, 9]
    """
    return [split_by_class(y, fraction, fold, seed, groups) for fold in range(n_folds)]


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
