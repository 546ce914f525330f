"""Δ between the candidates of every sample as one packed array, and its products, compiled: samples of all sizes in one go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lvmdc.candidates import Candidates

# Sums may be reordered, which is what vector instructions need.
FAST = {"reassoc", "contract"}
Array = np.ndarray[Any, Any]


class RaggedMatrices:
    """A matrix (c, c·K') for each sample of c candidates, on the CPU: row h' holds Δ(y1, h', y2_k, h) of every h and k.

    Args:
        blocks: rows of the truth (g, b) and of the prediction (g, c), and Δ between them (g, b, c, K').

    >>> rows, delta = torch.tensor([[0, 1]]), torch.tensor([[0.0, 1.0], [0.5, 0.0]]).reshape(1, 2, 2, 1)
    >>> matrices = RaggedMatrices(Candidates(torch.zeros(2, 1), [2]), 1, torch.float32, [(rows, rows, delta)])
    >>> matrices.apply(torch.tensor([0.25, 0.75]), False), matrices.apply(torch.tensor([[0.25], [0.75]]), True)
    (tensor([[0.3750],
            [0.2500]]), tensor([0.7500, 0.1250]))
    """

    def __init__(self, candidates: Candidates, classes: int, dtype: torch.dtype, blocks: Iterable[tuple[Tensor, Tensor, Tensor]]):
        self.classes = classes
        self._starts, self._counts = candidates.offsets.numpy(), candidates.counts.numpy()
        sizes = classes * candidates.counts.square()
        first = sizes.cumsum(0) - sizes
        numbers = torch.empty(int(sizes.sum()), dtype=dtype)
        for truth, predicted, delta in blocks:
            row = classes * predicted.shape[1]
            place = first[candidates.sample[truth]] + row * candidates.index(truth)
            numbers[(place[..., None] + torch.arange(row)).flatten()] = delta.reshape(-1)
        self._first, self._numbers = first.numpy(), numbers.numpy()

    def apply(self, p: Tensor, transposed: bool) -> Tensor:
        """p (T,) times the matrices, (T, K'), or the matrices times p (T, K'), (T,)."""
        rows = len(p)
        out = torch.zeros((rows,) if transposed else (rows, self.classes), dtype=p.dtype)
        tables = self._numbers, self._first, self._starts, self._counts, self.classes
        (_times if transposed else _transposed_times)(*tables, p.contiguous().numpy().ravel(), out.numpy().ravel())
        return out


@njit(cache=True, fastmath=FAST)
def _transposed_times(
    numbers: Array, first: Array, starts: Array, counts: Array, classes: int, p: Array, out: Array
) -> None:  # pragma: no cover
    for i in range(len(counts)):
        length = counts[i] * classes
        here = out[starts[i] * classes : starts[i] * classes + length]
        for a in range(counts[i]):
            by = p[starts[i] + a]
            if by != 0:  # a posterior that is a delta has one row
                row = numbers[first[i] + a * length : first[i] + (a + 1) * length]
                for k in range(length):
                    here[k] += by * row[k]


@njit(cache=True, fastmath=FAST)
def _times(numbers: Array, first: Array, starts: Array, counts: Array, classes: int, p: Array, out: Array) -> None:  # pragma: no cover
    for i in range(len(counts)):
        length = counts[i] * classes
        here = p[starts[i] * classes : starts[i] * classes + length]
        for a in range(counts[i]):
            row = numbers[first[i] + a * length : first[i] + (a + 1) * length]
            total = row[0] * here[0]
            for k in range(1, length):
                total += row[k] * here[k]
            out[starts[i] + a] = total
