"""Inner loops over chains, compiled: they visit one chain after the other, each to its own end."""

import numpy as np
import torch
from torch import Tensor

from lvmdc.chains.scores import ChainScores
from lvmdc.compiled import Array, compiled, dot


@compiled()
def best_paths(unary: Array, pairwise: Array, lengths: Array, h: Array) -> Array:  # pragma: no cover
    """(n,): the greatest score of each chain; the first labeling that has it goes to h (n, m).

    `unary` is (n, m, S), `pairwise` (1 or n, 1 or m − 1, S, S).
    """
    n, m, states = unary.shape
    value = np.empty(n, unary.dtype)
    best, new = np.empty(states, unary.dtype), np.empty(states, unary.dtype)
    came = np.empty((m, states), np.int32)
    for i in range(n):
        tables = pairwise[min(i, len(pairwise) - 1)]
        for s in range(states):
            best[s] = unary[i, 0, s]
        for t in range(1, lengths[i]):
            table, back = tables[min(t - 1, len(tables) - 1)], came[t]
            for s2 in range(states):
                new[s2], back[s2] = best[0] + table[0, s2], 0
            for s in range(1, states):
                for s2 in range(states):  # selections, not branches, so that it becomes vector instructions
                    here = best[s] + table[s, s2]
                    better = here > new[s2]
                    new[s2] = here if better else new[s2]
                    back[s2] = np.int32(s) if better else back[s2]
            for s2 in range(states):
                best[s2] = new[s2] + unary[i, t, s2]
        last = best.argmax()
        value[i] = best[last]
        for t in range(lengths[i] - 1, 0, -1):
            h[i, t] = last
            last = came[t, last]
        h[i, 0] = last
    return value


@compiled()
def plane_scores(vectors: Array, w: Array, vec: Array, blk: Array, count: Array, out: Array) -> None:  # pragma: no cover
    """out (n, M) = w·Ψ of every plane of the n-slack solver, see `lvmdc.solvers.n_slack.kernels`."""
    for i in range(len(count)):
        for p in range(count[i]):
            out[i, p] = dot(w[blk[i, p]], vectors[vec[i, p]])


# The best labeling of a chain.
#
# A. J. Viterbi, Error bounds for convolutional codes, IEEE Transactions on Information Theory 13, 1967.


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
    value = best_paths(unary.contiguous().numpy(), pairwise, scores.lengths.numpy(), h.numpy())
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
