"""The inner loops of the n-slack solver, compiled: they visit one sample after the other, and every step changes w for the next.

A plane p of sample i is a (y, h) with its loss l_p and dual weight α_p; its Ψ is the vector `vectors[vec]` in block `blk` of w.
All tables are (n, M), of which the first `count[i]` columns of row i are in use; `gram` (n, M, M) holds the products Ψ_p·Ψ_q.
"""

from typing import NamedTuple

import numpy as np

from lvmdc.compiled import FAST, Array, compiled, dot

REST = 3  # a sample without a gap is visited in one of this many rounds
SMALL = 0.1  # a sample whose gap is below this share of its part of the target is left as it is


class Tables(NamedTuple):
    """The planes of all samples, w as its blocks, and what the weights of each sample sum to."""

    vectors: Array  # (·, d')
    w: Array  # (blocks, d')
    vec: Array
    blk: Array
    loss: Array
    alpha: Array
    n_planes: Array  # (n,)
    gram: Array
    total: Array  # (n,) C/n v_i


@compiled(fastmath=FAST)
def plane_values(
    vectors: Array, w: Array, vec: Array, blk: Array, loss: Array, alpha: Array, value: Array
) -> tuple[float, float]:  # pragma: no cover
    """w·Ψ + Δ of the planes of one sample, into `value`; their sum by weight, and the greatest."""
    mixed, most = 0.0, -np.inf
    for p in range(len(vec)):
        value[p] = loss[p] + dot(w[blk[p]], vectors[vec[p]])
        mixed += alpha[p] * value[p]
        most = max(most, value[p])
    return mixed, most


@compiled(fastmath=FAST)
def pairwise(value: Array, alpha: Array, gram: Array, change: Array, steps: int, least: float) -> None:  # pragma: no cover
    """Up to `steps` pairwise steps for one sample: the plane of least value gives weight to the plane of greatest value, as much as is
    best for the dual, which is a quadratic along that line, until they differ by `least`. `change` gathers what each was given."""
    for _ in range(steps):
        high, low = 0, -1
        for p in range(len(value)):
            if value[p] > value[high]:
                high = p
            if alpha[p] > 0.0 and (low < 0 or value[p] < value[low]):
                low = p
        rise = value[high] - value[low]
        if rise <= least:
            break
        bend = gram[high, high] - 2.0 * gram[high, low] + gram[low, low]
        step = alpha[low]
        if step * bend > rise:
            step = rise / bend
            alpha[low] -= step
        else:
            alpha[low] = 0.0
        alpha[high] += step
        change[low] -= step
        change[high] += step
        for p in range(len(value)):
            value[p] -= step * (gram[p, high] - gram[p, low])


@compiled(fastmath=FAST)
def move(vectors: Array, w: Array, vec: Array, blk: Array, change: Array) -> None:  # pragma: no cover
    """w −= Σ change_p Ψ_p over the planes of one sample."""
    for p in range(len(vec)):
        if change[p] != 0.0:
            by = w.dtype.type(change[p])
            block, vector = w[blk[p]], vectors[vec[p]]
            for k in range(len(block)):
                block[k] -= by * vector[k]


@compiled(fastmath=FAST)
def ascend(
    i: int, tables: Tables, steps: int, enough: float, least: float, value: Array, change: Array
) -> tuple[float, float]:  # pragma: no cover
    """Up to `steps` pairwise steps for sample i, in place, unless its known planes have a gap of at most `enough`; the gap before, and
    the value of its mixture of planes. See `pairwise` for `least`; `value` and `change` (M,) are room to work in."""
    vectors, w, vec, blk, loss, alpha, count, gram, total = tables
    m = count[i]
    mixed, most = plane_values(vectors, w, vec[i, :m], blk[i, :m], loss[i], alpha[i], value)
    gap = total[i] * most - mixed
    if gap > enough:
        change[:m] = 0.0
        pairwise(value[:m], alpha[i], gram[i], change, steps, least)
        move(vectors, w, vec[i, :m], blk[i, :m], change)
    return gap, mixed


@compiled(fastmath=FAST)
def sweeps(order: Array, tables: Tables, steps: int, target: float, rounds: int) -> tuple[int, float]:  # pragma: no cover
    """Dual ascent over the planes that are known, in place: at most `rounds` over the samples, until their gap is below `target`.

    How many rounds it took, and the gap that the last one met.
    """
    count, total = tables.n_planes, tables.total
    value, change = np.empty(tables.alpha.shape[1], tables.w.dtype), np.empty(tables.alpha.shape[1])
    gap = 0.0
    last = np.full(len(count), np.inf)  # the gap of each sample when it was last visited
    small = SMALL * target / len(count)
    for r in range(rounds):
        gap = 0.0
        for i in order:
            if count[i] < 2 or total[i] <= 0.0:
                continue
            if last[i] > small or r % REST == 0:
                last[i], _ = ascend(i, tables, steps, small, small / total[i], value, change)
            gap += last[i]
        if gap <= target:
            return r + 1, gap
    return rounds, gap


@compiled(fastmath=FAST)
def subtract_sum(vectors: Array, vec: Array, blk: Array, alpha: Array, count: Array, out: Array) -> None:  # pragma: no cover
    """out −= Σ α_p Ψ_p in float64."""
    for i in range(len(count)):
        for p in range(count[i]):
            if alpha[i, p] != 0.0:
                by, block, vector = alpha[i, p], out[blk[i, p]], vectors[vec[i, p]]
                for k in range(len(block)):
                    block[k] -= by * vector[k]


@compiled(fastmath=FAST)
def fill_gram(samples: Array, places: Array, vectors: Array, vec: Array, blk: Array, count: Array, gram: Array) -> None:  # pragma: no cover
    """The rows and columns of `gram` that new planes need; planes in different blocks are orthogonal."""
    for j in range(len(samples)):
        i, p = samples[j], places[j]
        new = vectors[vec[i, p]]
        for q in range(count[i]):
            product = gram.dtype.type(0.0)
            if blk[i, q] == blk[i, p]:
                product = dot(new, vectors[vec[i, q]])
            gram[i, p, q] = gram[i, q, p] = product


@compiled()
def drop_idle(whole: tuple[Array, ...], real: tuple[Array, ...], count: Array, gram: Array, patience: int) -> None:  # pragma: no cover
    """Drop planes that have had no weight for `patience` passes, in samples that have weight; the others keep their order.

    `whole` are the columns of integers, `idle` first, `real` those of numbers, α first.
    """
    idle, alpha = whole[0], real[0]
    for i in range(len(count)):
        if count[i] == 0 or alpha[i, : count[i]].max() <= 0.0:
            continue
        kept = 0
        for p in range(count[i]):
            idle[i, p] = 0 if alpha[i, p] > 0.0 else idle[i, p] + 1
            if idle[i, p] >= patience:
                continue
            if kept < p:
                for numbers in whole:
                    numbers[i, kept] = numbers[i, p]
                for values in real:
                    values[i, kept] = values[i, p]
                for q in range(count[i]):
                    gram[i, kept, q] = gram[i, p, q]
                for q in range(count[i]):
                    gram[i, q, kept] = gram[i, q, p]
            kept += 1
        count[i] = kept


# ---- what a pass over the scores finds of every sample ------------------------------------------------------------


@compiled()
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


@compiled()
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


@compiled()
def missing(
    value: Array, where: Array, mixed: Array, row: Array, cls: Array, count: Array, total: Array, most: int
) -> tuple[Array, Array, Array]:  # pragma: no cover
    """Samples, rows and classes of planes to add: up to `most` classes per sample whose maximum beats its mixture, the
    greatest first, if not there yet."""
    n, classes = value.shape
    found = np.empty((n * min(most, classes), 3), np.int64)
    best = np.empty(min(most, classes), np.int64)
    size = 0
    for i in range(n):
        if total[i] <= 0.0:
            continue
        # Inserted in order: few of many classes beat the mixture, and sorting them all would cost more than scoring them.
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
