"""The inner loop of block-coordinate Frank–Wolfe, compiled; the tables are those of `kernels`."""

import numpy as np
from numba import njit

from lvmdc.solvers.kernels import FAST, Array, move, pairwise, plane_values


@njit(cache=True, fastmath=FAST)
def visit(
    chosen: Array,
    enough: Array,
    gaps: Array,
    vectors: Array,
    w: Array,
    vec: Array,
    blk: Array,
    loss: Array,
    alpha: Array,
    count: Array,
    gram: Array,
    total: Array,
    steps: int,
) -> tuple[Array, Array]:  # pragma: no cover
    """Steps for the samples `chosen`, in place, among the planes that are known of each.

    A sample whose known planes have a gap below its `enough` is left as it is. `gaps` (n,) takes those that were met.
    Which samples were left, and the value of each one's mixture of planes, both in the order of `chosen`.

    Args:
        steps: pairwise steps for a sample; 0: the step of Frank and Wolfe, from the whole mixture towards the best plane.
    """
    value = np.empty(alpha.shape[1], w.dtype)
    change = np.empty(alpha.shape[1])
    left = np.zeros(len(chosen), np.bool_)
    level = np.zeros(len(chosen))
    for j in range(len(chosen)):
        i = chosen[j]
        m = count[i]
        if total[i] <= 0.0:
            gaps[i] = 0.0
            continue
        mixed, most = plane_values(vectors, w, vec[i, :m], blk[i, :m], loss[i], alpha[i], value)
        level[j] = mixed / total[i]
        here = total[i] * most - mixed
        if here < enough[j]:
            left[j] = True
            continue
        gaps[i] = max(here, 0.0)
        change[:m] = 0.0
        if steps > 0:
            pairwise(value[:m], alpha[i], gram[i], change, steps, 0.0)
        else:
            towards(value[:m], alpha[i], gram[i], change, total[i], here)
        move(vectors, w, vec[i, :m], blk[i, :m], change)
    return left, level


@njit(cache=True, fastmath=FAST)
def towards(value: Array, alpha: Array, gram: Array, change: Array, total: float, rise: float) -> None:  # pragma: no cover
    """The step of Frank and Wolfe for one sample: all weights shrink alike for that of the best plane, as far as is best for the dual."""
    best, m = 0, len(value)
    for p in range(m):
        if value[p] > value[best]:
            best = p
    for p in range(m):
        change[p] = -alpha[p]
    change[best] += total
    bend = 0.0
    for p in range(m):
        for q in range(m):
            bend += change[p] * gram[p, q] * change[q]
    share = 0.0  # where there is nothing to gain but rounding
    if rise > 0.0:
        share = 1.0 if bend <= rise else rise / bend
    for p in range(m):
        change[p] *= share
        alpha[p] += change[p]
