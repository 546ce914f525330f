"""Expectations of any Δ over pairs of candidates, in blocks within a memory budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.compiled import Array, compiled
from lvmdc.storage.mapped import memory_budget

if TYPE_CHECKING:
    from lvmdc.losses.base import Loss

FAST = {"reassoc", "contract"}  # sums may be reordered, which vector instructions need
# NOTE: a Δ over boxes holds up to ten temporaries of its result's size at once, in the precision of the boxes, which may be float64.
BYTES_PER_NUMBER = 12 * 8
BLOCK_NUMBERS = 1 << 20  # larger blocks leave the processor's cache and are no faster


class RaggedMatrices:
    """A matrix (c, c·K') for each sample of c candidates, on the CPU: row h' holds Δ(y1, h', y2_k, h) of every h and k. One packed array,
    so that compiled products handle samples of all sizes in one call.

    Args:
        blocks: rows of the truth (g, b) and of the prediction (g, c), and Δ between them (g, b, c, K').
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


@compiled(fastmath=FAST)
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


@compiled(fastmath=FAST)
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


class PairwiseExpectation:
    """The linear map p ↦ E, E(h, k) = Σ_h' p(h') Δ(y1_i, h', y2_ik, h), over the candidates of each sample i.

    Samples with the same number of candidates are one batch. The blocks of Δ are kept if all of them fit in the budget and recomputed
    on every use if not, so one sample with very many candidates is slow but never too large.

    Args:
        y1: (n,) the class of the truth.
        y2: (n, K') the classes of the prediction at which the expectation is wanted.

    >>> from lvmdc.losses import ZeroOneLoss
    >>> y = torch.tensor([0])
    >>> expectation = PairwiseExpectation(ZeroOneLoss(), Candidates(torch.zeros(3, 1), [3]), y, y[:, None])
    >>> expectation(torch.tensor([0.5, 0.3, 0.2])).flatten()
    tensor([0.5000, 0.7000, 0.8000])
    """

    def __init__(self, loss: Loss, candidates: Candidates, y1: Tensor, y2: Tensor, limit: int | None = None):
        loss.check_candidates(candidates)
        self.loss, self.candidates, self.y1, self.y2 = loss, candidates, y1, y2
        self.budget = memory_budget(candidates.device, limit)
        self._numbers = int((candidates.counts.double() ** 2).sum()) * y2.shape[1]
        self._kept: dict[torch.dtype, list[tuple[Tensor, Tensor, Tensor]]] = {}
        self._packed: dict[torch.dtype, RaggedMatrices] = {}

    def __call__(self, p: Tensor) -> Tensor:
        """(T,) → (T, K'), differentiable in p any number of times: the map is linear."""
        return _Apply.apply(p, self, False)

    def apply(self, p: Tensor, transposed: bool) -> Tensor:
        """The map, or its transpose (T, K') → (T,), without a derivative."""
        classes = self.y2.shape[1]
        if p.device.type == "cpu" and self._fits(p.dtype):
            if p.dtype not in self._packed:
                self._packed = {p.dtype: RaggedMatrices(self.candidates, classes, p.dtype, self._compute(p.dtype))}
            return self._packed[p.dtype].apply(p, transposed)
        shape = (self.candidates.n_candidates,) if transposed else (self.candidates.n_candidates, classes)
        out = p.new_zeros(shape)
        for truth, predicted, delta in self._deltas(p.dtype):
            groups, some, all_of = *truth.shape, predicted.shape[1]
            matrix = delta.reshape(groups, some, all_of * classes)  # (g, b, c·K')
            if transposed:
                product = matrix @ p[predicted].reshape(groups, all_of * classes, 1)  # (g, b, 1)
                out[truth] += product[..., 0]
            else:
                product = p[truth].unsqueeze(1) @ matrix  # (g, 1, c·K')
                out[predicted] += product.reshape(groups, all_of, classes)
        return out

    def _fits(self, dtype: torch.dtype) -> bool:
        return self._numbers * dtype.itemsize <= self.budget

    def _deltas(self, dtype: torch.dtype) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Rows of the truth and of the prediction, and Δ between them, block by block."""
        if not self._fits(dtype):
            return self._compute(dtype)
        if dtype not in self._kept:
            self._kept = {dtype: list(self._compute(dtype))}  # of the last precision only, which is all that the budget allows
        return self._kept[dtype]

    def _compute(self, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for truth, predicted in self._blocks():
            sample = self.candidates.sample[truth[:, 0]]
            y1, y2 = self.y1[sample].reshape(-1, 1, 1, 1), self.y2[sample].reshape(len(sample), 1, 1, -1)
            rows1, rows2 = truth[:, :, None, None], predicted[:, None, :, None]  # (g, b, 1, 1), (g, 1, c, 1)
            yield truth, predicted, self.loss.delta_at(self.candidates, y1, rows1, y2, rows2).to(dtype)

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the truth (g, b) and of the prediction (g, c) for g samples of c candidates each."""
        largest = max(1, min(self.budget // BYTES_PER_NUMBER, BLOCK_NUMBERS) // self.y2.shape[1])
        counts = self.candidates.counts
        for count in counts.unique().tolist():
            first = self.candidates.offsets[counts == count]
            steps = torch.arange(count, device=first.device)
            together = max(1, largest // count**2)
            for start in range(0, len(first), together):
                rows = first[start : start + together, None] + steps  # (g, c)
                for part in rows.split(max(1, min(count, largest // (len(rows) * count))), dim=1):
                    yield part, rows


class _Apply(torch.autograd.Function):
    """Saves no block for the backward pass, which would exceed the budget: the derivative is the transposed map."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, expectation: PairwiseExpectation, transposed: bool) -> Tensor:
        ctx.expectation, ctx.transposed = expectation, transposed
        return expectation.apply(p.detach(), transposed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _Apply.apply(grads[0], ctx.expectation, not ctx.transposed), None, None
