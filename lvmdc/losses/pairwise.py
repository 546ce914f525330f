"""Expectations of any Δ over pairs of candidates, in blocks within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


class FlatPairs:
    """The same matrices as one list of all pairs of candidates of a sample, for devices on which each operation costs a launch: a product
    is three operations, however many samples there are and however many candidates they have.

    The list is kept in two orders, by truth and by prediction, so that either sum is over consecutive numbers. Both orders have the same
    lengths, and the same other candidate of each pair.

    Args:
        delta: Δ(y1, h', y2_k, h) of pairs of rows h', h (m,), as (m, K').
        step: the most pairs at a time for which Δ is computed.
    """

    def __init__(self, candidates: Candidates, delta: Callable[[Tensor, Tensor], Tensor], step: int):
        self._length = candidates.counts[candidates.sample]  # of pairs with each row
        first = self._length.cumsum(0) - self._length
        row = torch.repeat_interleave(self._length)  # (pairs,)
        self._other = torch.arange(len(row), device=row.device) - first[row] + candidates.offsets[candidates.sample[row]]
        self._by_truth = torch.cat([delta(*pair) for pair in zip(row.split(step), self._other.split(step), strict=True)])
        self._by_prediction = self._by_truth[first[self._other] + candidates.index(row)]

    def apply(self, p: Tensor, transposed: bool) -> Tensor:
        """p (T,) times the matrices, (T, K'), or the matrices times p (T, K'), (T,)."""
        if transposed:
            return self._sum((self._by_truth * p[self._other]).sum(dim=1))
        return self._sum(self._by_prediction * p[self._other, None])

    def _sum(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "sum", lengths=self._length, axis=0, unsafe=True)


class PairwiseExpectation:
    """The linear map p ↦ E, E(h, k) = Σ_h' p(h') Δ(y1_i, h', y2_ik, h), over the candidates of each sample i.

    Δ is kept if all of it fits in the budget. If not, it is recomputed on every use, in blocks of samples with the same number of
    candidates, so one sample with very many candidates is slow but never too large.

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
        self._kept: dict[torch.dtype, RaggedMatrices | FlatPairs] = {}

    def __call__(self, p: Tensor) -> Tensor:
        """(T,) → (T, K'), differentiable in p any number of times: the map is linear."""
        return _Apply.apply(p, self, False)

    def apply(self, p: Tensor, transposed: bool) -> Tensor:
        """The map, or its transpose (T, K') → (T,), without a derivative."""
        classes = self.y2.shape[1]
        if self._fits(p.dtype):
            if p.dtype not in self._kept:
                self._kept = {p.dtype: self._matrices(p.dtype)}  # of the last precision only, which is all that the budget allows
            return self._kept[p.dtype].apply(p, transposed)
        shape = (self.candidates.n_candidates,) if transposed else (self.candidates.n_candidates, classes)
        out = p.new_zeros(shape)
        for truth, predicted, delta in self._compute(p.dtype):
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
        # On other devices than the CPU: two orders of Δ, products of their size, and the other candidate of each pair.
        copies, index = (1, 0) if self.candidates.device.type == "cpu" else (4, 3 * 8)
        return self._numbers * (copies * dtype.itemsize + index) <= self.budget

    def _matrices(self, dtype: torch.dtype) -> RaggedMatrices | FlatPairs:
        """Δ of all pairs, in the form that suits the device."""
        if self.candidates.device.type == "cpu":
            return RaggedMatrices(self.candidates, self.y2.shape[1], dtype, self._compute(dtype))

        def delta(rows1: Tensor, rows2: Tensor) -> Tensor:
            sample = self.candidates.sample[rows1]
            of_truth = self.y1[sample, None], rows1[:, None]
            return self.loss.delta_at(self.candidates, *of_truth, self.y2[sample], rows2[:, None]).to(dtype)

        return FlatPairs(self.candidates, delta, self._at_a_time)

    @property
    def _at_a_time(self) -> int:
        """The most pairs for which Δ may be computed at once."""
        return max(1, min(self.budget // BYTES_PER_NUMBER, BLOCK_NUMBERS) // self.y2.shape[1])

    def _compute(self, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows of the truth and of the prediction, and Δ between them, block by block."""
        for truth, predicted in self._blocks():
            sample = self.candidates.sample[truth[:, 0]]
            y1, y2 = self.y1[sample].reshape(-1, 1, 1, 1), self.y2[sample].reshape(len(sample), 1, 1, -1)
            rows1, rows2 = truth[:, :, None, None], predicted[:, None, :, None]  # (g, b, 1, 1), (g, 1, c, 1)
            yield truth, predicted, self.loss.delta_at(self.candidates, y1, rows1, y2, rows2).to(dtype)

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the truth (g, b) and of the prediction (g, c) for g samples of c candidates each."""
        largest, counts = self._at_a_time, self.candidates.counts
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
