"""The best labeling of a chain.

A. J. Viterbi, Error bounds for convolutional codes, IEEE Transactions on Information Theory 13, 1967.
"""

import torch
from torch import Tensor

from lvmdc.chains import kernels
from lvmdc.chains.scores import ChainScores


def viterbi(scores: ChainScores) -> tuple[Tensor, Tensor]:
    """max_h s(h) and the first h that has it, (n,), (n, m); zero beyond the end of a chain. In O(m S²), without a derivative.

    Loss-augmented, it maximises s(h) + Σ_t loss[t, h_t]: `viterbi(scores.plus(loss))`.

    >>> scores = ChainScores(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]), torch.tensor([[0.0, 0.0], [5.0, 0.0]]))
    >>> viterbi(scores)
    (tensor([6.]), tensor([[1, 0]]))
    >>> viterbi(scores.plus(torch.tensor([[[9.0, 0.0], [0.0, 1.0]]])))
    (tensor([10.]), tensor([[0, 1]]))
    """
    unary = scores.unary.detach()
    if scores.pairwise is None:
        best, h = unary.max(dim=2)
        return torch.where(scores.mask, best, 0).sum(dim=1), torch.where(scores.mask, h, 0)
    if unary.device.type != "cpu" or unary.shape[1] == 1:
        return viterbi_of_batch(scores)
    h = torch.zeros(unary.shape[:2], dtype=torch.long)
    pairwise = scores.pairwise.detach().contiguous().numpy()
    value = kernels.viterbi(unary.contiguous().numpy(), pairwise, scores.lengths.numpy(), h.numpy())
    return torch.from_numpy(value), h


def viterbi_of_batch(scores: ChainScores) -> tuple[Tensor, Tensor]:
    """`viterbi` by operations on the whole batch, site after site, as a GPU likes it.

    >>> viterbi_of_batch(ChainScores(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), torch.zeros(2, 2)))
    (tensor([3.]), tensor([[1, 0]]))
    """
    unary, mask = scores.unary.detach(), scores.mask
    best, came = unary[:, 0], []
    for t in range(1, unary.shape[1]):
        new, back = (best[:, :, None] + scores.between(t - 1).detach()).max(dim=1)
        best = torch.where(mask[:, t, None], new + unary[:, t], best)
        came.append(back)
    value, last = best.max(dim=1)
    found = []
    for t in range(unary.shape[1] - 1, 0, -1):
        found.append(torch.where(mask[:, t], last, 0))
        last = torch.where(mask[:, t], came[t - 1].gather(1, last[:, None])[:, 0], last)
    return value, torch.stack([last, *found[::-1]], dim=1)
