"""Which (y, h) is best: the maxima that prediction (3) and the bound (9) are made of."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.segments import segment_argmax, segment_max

TIE = 1e-5  # scores of h that differ by a smaller share are equal, so that rounding does not choose h*


def best(candidates: Candidates, values: Tensor) -> tuple[Tensor, Tensor]:
    """argmax over (y, h) of values (T, K): the class (n,) and the packed row (n,) of each sample, the first if several tie.

    >>> best(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[0.0, 3.0], [1.0, 2.0]]))
    (tensor([1]), tensor([0]))
    """
    rows = segment_argmax(values.detach().amax(dim=1), candidates.counts)
    return values.detach()[rows].argmax(dim=1), rows


def best_value(candidates: Candidates, values: Tensor) -> Tensor:
    """max over (y, h) of values (T, K) for each sample, (n,)."""
    return segment_max(values.amax(dim=1), candidates.counts)


def own_class(candidates: Candidates, values: Tensor, y: Tensor) -> Tensor:
    """(T,): the column of each sample's own class y (n,) in values (T, K).

    >>> own_class(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[0.0, 3.0], [1.0, 2.0]]), torch.tensor([1]))
    tensor([3., 2.])
    """
    return values.gather(1, y[candidates.sample, None])[:, 0]


def best_of_class(candidates: Candidates, values: Tensor, y: Tensor) -> Tensor:
    """argmax over h of values (T, K) under the sample's own class y: the packed row (n,), the first within `TIE` of the best. The h* of
    Algorithm 1.

    >>> best_of_class(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[0.0, 3.0], [1.0, 2.0]]), torch.tensor([0]))
    tensor([1])
    """
    return segment_argmax(own_class(candidates, values, y), candidates.counts, TIE)


def top_k(candidates: Candidates, values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k best (y, h) of each sample by values (T, K), best first: classes, candidate indices and values, each (n, k).

    A sample with fewer than k pairs is filled up with class and index −1 and value −inf. Pairs of value −inf do not count.

    >>> y, h, v = top_k(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[0.0, 3.0], [1.0, 2.0]]), 2)
    >>> y, h, v
    (tensor([[1, 1]]), tensor([[0, 1]]), tensor([[3., 2.]]))
    """
    n, classes = len(candidates), values.shape[1]
    flat, sample = values.detach().flatten(), candidates.sample.repeat_interleave(classes)
    order = flat.argsort(descending=True, stable=True)
    order = order[sample[order].argsort(stable=True)]  # by sample, best first inside each
    length = candidates.counts * classes
    place = torch.arange(len(flat), device=flat.device) - (length.cumsum(0) - length).repeat_interleave(length)
    kept = (place < k) & (flat[order] > -torch.inf)
    order, place = order[kept], place[kept]
    rows = order // classes
    y = torch.full((n, k), -1, device=flat.device)
    h, value = y.clone(), torch.full((n, k), -torch.inf, device=flat.device, dtype=flat.dtype)
    cell = (candidates.sample[rows], place)
    y[cell], h[cell], value[cell] = order % classes, candidates.index(rows), flat[order]
    return y, h, value
