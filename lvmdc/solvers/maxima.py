"""What a pass over the scores finds of every sample, compiled: the best (y, h) of each class, h*, and planes that are not known yet."""

import numpy as np
from numba import njit

from lvmdc.solvers.kernels import Array


@njit(cache=True)
def class_maxima(scores: Array, losses: Array, starts: Array, counts: Array) -> tuple[Array, Array]:  # pragma: no cover
    """(n, K), (n, K): for each sample and class the greatest w·Ψ + Δ over its candidates, and the first packed row where it lies."""
    n, classes = len(counts), scores.shape[1]
    value = np.full((n, classes), -np.inf)
    row = np.empty((n, classes), np.int64)
    for i in range(n):
        row[i] = starts[i]
        for t in range(starts[i], starts[i] + counts[i]):
            for k in range(classes):
                here = scores[t, k] + losses[t, k]
                if here > value[i, k]:
                    value[i, k], row[i, k] = here, t
    return value, row


@njit(cache=True)
def own_maxima(scores: Array, y: Array, known: Array, starts: Array, counts: Array, tie: float) -> tuple[Array, Array]:  # pragma: no cover
    """(n,), (n,): h* as `lvmdc.inference.best_of_class` has it, the known row where there is one; its score."""
    row = np.empty(len(counts), np.int64)
    value = np.empty(len(counts), np.float64)
    for i in range(len(counts)):
        top, k = starts[i], y[i]
        for t in range(starts[i] + 1, starts[i] + counts[i]):
            if scores[t, k] > scores[top, k]:
                top = t
        least = scores[top, k] - tie * abs(scores[top, k])
        first = starts[i]
        while scores[first, k] < least:
            first += 1
        row[i] = known[i] if known[i] >= 0 else first
        value[i] = scores[row[i], k]
    return row, value


@njit(cache=True)
def missing(
    value: Array, where: Array, mixed: Array, row: Array, cls: Array, count: Array, total: Array, most: int
) -> tuple[Array, Array, Array]:  # pragma: no cover
    """Samples, rows and classes of planes to add: up to `most` classes a sample whose maximum beats its mixture, the
    greatest first, if not there yet."""
    n, classes = value.shape
    found = np.empty((n * min(most, classes), 3), np.int64)
    best = np.empty(min(most, classes), np.int64)
    size = 0
    for i in range(n):
        if total[i] <= 0.0:
            continue
        # Inserted in order: few of many classes beat the mixture, and to sort them all would cost more than their scores did.
        beating = 0
        for k in range(classes):
            if value[i, k] <= mixed[i] or (beating == len(best) and value[i, k] <= value[i, best[-1]]):
                continue
            place = min(beating, len(best) - 1)
            while place > 0 and value[i, best[place - 1]] < value[i, k]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = k
            beating = min(beating + 1, len(best))
        for k in best[:beating]:
            known = False
            for p in range(count[i]):
                known |= row[i, p] == where[i, k] and cls[i, p] == k
            if not known:
                found[size, 0], found[size, 1], found[size, 2] = i, where[i, k], k
                size += 1
    return found[:size, 0], found[:size, 1], found[:size, 2]
