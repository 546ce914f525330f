"""A small concave quadratic over a box, by visiting one number after the other."""

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

SWEEPS = 20  # at most; what is left after a few is far below what the next pass over the features changes
TINY = 1e-30  # of curvatures that are divided by
ENOUGH = 1e-3  # a sweep that gains less than this share of the whole is the last


@njit(cache=True)
def box_ascent(slopes: Array, gram: Array, most: Array) -> Array:  # pragma: no cover
    """(m,): t in [0, most] that nearly maximises slopes·t − ½ tᵀ gram t.

    >>> box_ascent(np.array([1.0, 1.0, 1.0]), np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), np.array([2.0, 2.0, 0.5]))
    array([1. , 0.5, 0.5])
    """
    t, rest, whole = np.zeros_like(slopes), slopes.copy(), 0.0
    for _ in range(SWEEPS):
        gained = 0.0
        for i in range(len(t)):
            curvature = max(gram[i, i], TINY)
            step = min(max(t[i] + rest[i] / curvature, 0.0), most[i]) - t[i]
            if step != 0.0:
                gained += step * (rest[i] - 0.5 * step * curvature)
                t[i] += step
                for j in range(len(t)):
                    rest[j] -= step * gram[i, j]
        whole += gained
        if gained <= ENOUGH * whole:
            break
    return t
