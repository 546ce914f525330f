"""Tables of pictures × classes, and the pictures that a class is learned from."""

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates


def as_table(candidates: Candidates, values: ArrayLike, name: str) -> Tensor:
    """(n, K) whole numbers of pictures × classes, refused where they are not of these pictures.

    >>> as_table(Candidates(torch.zeros(2, 1), [1, 1]), [[1, -1]], "labels")
    Traceback (most recent call last):
    ValueError: labels must have shape (2, K), pictures × classes, but it has shape (1, 2)
    """
    table = as_tensor(values).to(candidates.device)
    if table.dim() != 2 or len(table) != len(candidates):
        raise ValueError(f"{name} must have shape ({len(candidates)}, K), pictures × classes, but it has shape {tuple(table.shape)}")
    return table.long()


def balanced(column: Tensor) -> Tensor:
    """The pictures that a class is learned from, by their labels (n,): all that are told, those without it again until they are as many.

    >>> balanced(torch.tensor([1, 1, 0, 1, -1]))
    tensor([0, 1, 3, 4, 4, 4])
    """
    told, lack = (column != 0).nonzero().flatten(), (column == -1).nonzero().flatten()
    missing = int((column == 1).sum()) - len(lack)
    more = lack.repeat(1 + max(0, missing) // len(lack))[: max(0, missing)]
    return torch.cat([told, more]).sort(stable=True).values
