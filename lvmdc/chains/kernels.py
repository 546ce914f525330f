"""Inner loops over chains, compiled: they visit one chain after the other, each to its own end."""

from typing import Any

import numpy as np
from numba import njit

from lvmdc.solvers.kernels import dot

Array = np.ndarray[Any, Any]


@njit(cache=True)
def viterbi(unary: Array, pairwise: Array, lengths: Array, h: Array) -> Array:  # pragma: no cover
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


@njit(cache=True)
def plane_scores(vectors: Array, w: Array, vec: Array, blk: Array, count: Array, out: Array) -> None:  # pragma: no cover
    """out (n, M) = w·Ψ of every plane of the n-slack solver, see `lvmdc.solvers.kernels`."""
    for i in range(len(count)):
        for p in range(count[i]):
            out[i, p] = dot(w[blk[i, p]], vectors[vec[i, p]])
