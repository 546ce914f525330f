"""Node marginals and their derivative by compiled loops, for the θ block, which asks for them again and again."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmdc.chains.distribution import ChainDistribution
from lvmdc.chains.messages import RANGE
from lvmdc.solvers.kernels import FAST, Array, dot


def node_marginals(P: ChainDistribution) -> Tensor:
    """(n, m, S): `P.marginals`, several times as fast where all neighbours share their pairwise scores; differentiable once.

    >>> from lvmdc.chains import ChainScores
    >>> node_marginals(ChainDistribution(ChainScores(torch.zeros(1, 2, 2).double(), torch.tensor([[0.0, 0.0], [1.0986, 0.0]]))))
    tensor([[[0.3333, 0.6667],
             [0.6667, 0.3333]]], dtype=torch.float64)
    """
    unary, pairwise = P.scores.unary, P.scores.pairwise
    if pairwise is None or pairwise.shape[:2] != (1, 1) or unary.dtype != torch.float64 or unary.device.type != "cpu":
        return P.marginals
    table = pairwise[0, 0]
    if float(table.detach().amax() - table.detach().amin()) > RANGE[torch.float64]:
        return P.marginals
    return _Marginals.apply(unary, table, P.scores.lengths)


class _Marginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, unary: Tensor, pairwise: Tensor, lengths: Tensor) -> Tensor:
        weights = (pairwise.detach() - pairwise.detach().amax()).exp().numpy()
        seen = (unary.detach() - unary.detach().amax(dim=2, keepdim=True)).exp().contiguous().numpy()
        p, *kept = _forward_backward(seen, weights, lengths.numpy())
        ctx.kept = p, weights, lengths.numpy(), kept
        return torch.from_numpy(p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        p, weights, lengths, kept = ctx.kept
        unary, pairwise = _covariances(grads[0].contiguous().numpy(), p, weights, lengths, *kept)
        return torch.from_numpy(unary), torch.from_numpy(pairwise), None


@njit(cache=True, fastmath=FAST)
def _forward_backward(seen: Array, weights: Array, lengths: Array) -> tuple[Array, Array, Array, Array, Array]:  # pragma: no cover
    """P(h_t = s), and the messages: what comes to t from before it, without and with what is seen there, and the same from after it.

    All are (n, m, S), each scaled by a factor of its site, which cancels. `seen` and `weights` are exp of the scores.
    """
    n, _, states = seen.shape
    p = np.zeros(seen.shape)
    come, before = np.ones(seen.shape), np.zeros(seen.shape)
    gone, after = np.ones(seen.shape), np.zeros(seen.shape)
    for i in range(n):
        last = lengths[i] - 1
        for t in range(last + 1):
            if t:
                for s2 in range(states):
                    come[i, t, s2] = 0.0
                for s in range(states):
                    for s2 in range(states):
                        come[i, t, s2] += before[i, t - 1, s] * weights[s, s2]
            total = dot(come[i, t], seen[i, t])
            for s in range(states):
                before[i, t, s] = come[i, t, s] * seen[i, t, s] / total
        for t in range(last, -1, -1):
            if t < last:
                for s in range(states):
                    gone[i, t, s] = dot(weights[s], after[i, t + 1])
            total = dot(gone[i, t], seen[i, t])
            for s in range(states):
                after[i, t, s] = gone[i, t, s] * seen[i, t, s] / total
            total = dot(before[i, t], gone[i, t])
            for s in range(states):
                p[i, t, s] = before[i, t, s] * gone[i, t, s] / total
    return p, come, before, gone, after


@njit(cache=True, fastmath=FAST)
def _covariances(
    g: Array, p: Array, weights: Array, lengths: Array, come: Array, before: Array, gone: Array, after: Array
) -> tuple[Array, Array]:  # pragma: no cover
    """(n, m, S), (S, S): the covariances of Σ_t g_t(h_t) with [h_t = s], and summed over all neighbours with [h_t = s, h_{t+1} = s'].

    The derivative of a mean in an exponential family is a covariance: P(h_t = s) · (E[Σ g | h_t = s] − E[Σ g]), where the conditional
    mean is what the sites up to t give, F_t(s), and what those after it give, B_t(s).
    """
    n, m, states = g.shape
    unary, pairwise = np.zeros(g.shape), np.zeros((states, states))
    first, rest = np.empty((m, states)), np.empty((m, states))
    left, right = np.empty(states), np.empty(states)
    for i in range(n):
        last = lengths[i] - 1
        for s in range(states):
            first[0, s], rest[last, s] = g[i, 0, s], 0.0
        for t in range(1, last + 1):
            for s2 in range(states):
                right[s2] = 0.0
            for s in range(states):
                here = before[i, t - 1, s] * first[t - 1, s]
                for s2 in range(states):
                    right[s2] += here * weights[s, s2]
            for s2 in range(states):
                first[t, s2] = g[i, t, s2] + right[s2] / come[i, t, s2]
        for t in range(last - 1, -1, -1):
            for s2 in range(states):
                right[s2] = after[i, t + 1, s2] * (g[i, t + 1, s2] + rest[t + 1, s2])
            for s in range(states):
                rest[t, s] = dot(weights[s], right) / gone[i, t, s]
        mean = 0.0
        for s in range(states):
            mean += p[i, 0, s] * (first[0, s] + rest[0, s])
        for t in range(last + 1):
            for s in range(states):
                unary[i, t, s] = p[i, t, s] * (first[t, s] + rest[t, s] - mean)
        for t in range(last):
            total = dot(before[i, t], gone[i, t])
            for s in range(states):
                left[s] = before[i, t, s] / total
                right[s] = after[i, t + 1, s] * (g[i, t + 1, s] + rest[t + 1, s])
            for s in range(states):
                known = left[s] * (first[t, s] - mean)
                for s2 in range(states):
                    pairwise[s, s2] += weights[s, s2] * (known * after[i, t + 1, s2] + left[s] * right[s2])
    return unary, pairwise
