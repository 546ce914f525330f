"""Forward and backward messages of a chain, in log space, by matrix products.

L. R. Rabiner, A tutorial on hidden Markov models, Proceedings of the IEEE 77, 1989.
"""

import torch
from torch import Tensor

from lvmdc.chains.scores import ChainScores

# exp of pairwise scores underflows beyond a range, which is where sums must be taken in log space. NOTE: to change the state of a site
# gains at most twice the range by its neighbours, so that within these ranges what underflows has a probability below 1e-16.
RANGE = {torch.float64: 100.0, torch.float32: 20.0}


class Transitions:
    """m ↦ log Σ_s exp(m_s + pairwise[t, s, s']), towards the end of the chain or, `transposed`, towards its beginning.

    >>> scores = ChainScores(torch.zeros(1, 2, 2), torch.tensor([[0.0, 0.0], [5.0, 0.0]]))
    >>> Transitions(scores)(0, torch.zeros(1, 2))
    tensor([[5.0067, 0.6931]])
    """

    def __init__(self, scores: ChainScores, transposed: bool = False):
        assert scores.pairwise is not None
        self.table = scores.pairwise.mT if transposed else scores.pairwise  # (1 or n, 1 or m − 1, S, S)
        whole = self.table.detach()
        self.peak = whole.amax() if whole.numel() else whole.new_zeros(())
        narrow = whole.numel() == 0 or float(self.peak - whole.amin()) <= RANGE.get(whole.dtype, 0.0)
        self.exp = (self.table - self.peak).exp() if narrow else None

    def __call__(self, t: int, message: Tensor) -> Tensor:
        step = min(t, self.table.shape[1] - 1)
        if self.exp is None:
            return (message[:, :, None] + self.table[:, step]).logsumexp(dim=1)
        top = message.detach().amax(dim=1, keepdim=True)
        weights, matrix = (message - top).exp(), self.exp[:, step]
        summed = weights @ matrix[0] if len(matrix) == 1 else (weights[:, None] @ matrix)[:, 0]
        return summed.log() + (top + self.peak)


def forward(scores: ChainScores) -> Tensor:
    """(n, m, S): log Σ exp(s) over the states of the sites before t, those of t and before it counted; beyond the end as at the end.

    >>> forward(ChainScores(torch.zeros(1, 3, 2), torch.zeros(2, 2)))[0, :, 0].exp()
    tensor([1., 2., 4.])
    """
    unary = scores.unary
    if scores.pairwise is None:
        before = torch.where(scores.mask, unary.logsumexp(dim=2), 0).cumsum(dim=1)  # (n, m)
        own = unary + torch.nn.functional.pad(before, (1, -1))[..., None]
        last = own.gather(1, (scores.lengths - 1)[:, None, None].expand(-1, 1, scores.n_states))
        return torch.where(scores.mask[..., None], own, last)
    step = Transitions(scores)
    found = [unary[:, 0]]
    for t in range(1, unary.shape[1]):
        new = step(t - 1, found[-1]) + unary[:, t]
        found.append(new if scores.even else torch.where(scores.mask[:, t, None], new, found[-1]))
    return torch.stack(found, dim=1)


def backward(scores: ChainScores) -> Tensor:
    """(n, m, S): log Σ exp(s) over the states of the sites after t, given that of t, which is not counted; zero at and beyond the end.

    >>> backward(ChainScores(torch.zeros(1, 3, 2), torch.zeros(2, 2)))[0, :, 0].exp()
    tensor([4., 2., 1.])
    """
    unary = scores.unary
    if scores.pairwise is None:
        sums = torch.where(scores.mask, unary.logsumexp(dim=2), 0)
        after = sums.sum(dim=1, keepdim=True) - sums.cumsum(dim=1)
        return torch.where(scores.mask, after, 0)[..., None].expand_as(unary)
    step = Transitions(scores, transposed=True)
    found = [torch.zeros_like(unary[:, 0])]
    for t in range(unary.shape[1] - 2, -1, -1):
        new = step(t, found[-1] + unary[:, t + 1])
        found.append(new if scores.even else torch.where(scores.mask[:, t + 1, None], new, 0))
    return torch.stack(found[::-1], dim=1)
