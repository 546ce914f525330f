"""Which samples, and which of their candidates: what is refused, and the packed rows that are meant."""

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor


def checked_choice(h: ArrayLike, counts: Tensor) -> Tensor:
    """(n,) candidate indices h, one for each sample of `counts` (n,) candidates, on their device.

    >>> checked_choice([1, 0], torch.tensor([2, 1]))
    tensor([1, 0])
    """
    h = as_tensor(h).to(counts.device)
    if h.shape != counts.shape:
        raise ValueError(f"h must have shape ({len(counts)},), one candidate a sample, but it has shape {tuple(h.shape)}")
    if h.is_floating_point() or h.dtype == torch.bool:
        raise ValueError(f"h must hold integers, candidate indices, but it is {h.dtype}")
    bad = ((h < 0) | (h >= counts)).nonzero().flatten()
    if len(bad):
        i = int(bad[0])
        raise ValueError(f"h[{i}] must lie in 0..{int(counts[i]) - 1}, the candidates of sample {i}, but it is {int(h[i])}")
    return h.long()


def checked_index(index: ArrayLike, n: int, device: torch.device | None = None) -> Tensor:
    """(m,) the samples, of n, that integers or a mask choose: at least one.

    >>> checked_index([False, True], 2)
    tensor([1])
    """
    chosen = as_tensor(index).to(device).reshape(-1)
    if len(chosen) == 0 or (chosen.dtype == torch.bool and not bool(chosen.any())):
        raise ValueError("index must choose at least one sample, but it chooses none")
    if chosen.is_floating_point():
        raise ValueError(f"index must hold integers or be a mask, but it is {chosen.dtype}")
    if chosen.dtype == torch.bool and len(chosen) != n:
        raise ValueError(f"a mask must have shape ({n},), one value a sample, but it has shape ({len(chosen)},)")
    return chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen.long()


def rows_of(samples: Tensor, counts: Tensor) -> Tensor:
    """The packed rows of all candidates of some samples (m,), one sample after the other.

    >>> rows_of(torch.tensor([1, 0]), torch.tensor([2, 1]))
    tensor([2, 0, 1])
    """
    taken, offsets = counts[samples], counts.cumsum(0) - counts
    first = offsets[samples] - (taken.cumsum(0) - taken)
    return torch.arange(int(taken.sum()), device=counts.device) + first.repeat_interleave(taken)
