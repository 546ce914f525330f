"""The overlap loss of boxes, whose expectation Σ_h' p(h') (1 − O(h', h)) is compiled and needs no table of overlaps.

From about 300 boxes per sample on, reading a table takes about as long as computing it; below that only memory is saved.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.boxes import box_iou
from lvmdc.candidates import Candidates, Latent
from lvmdc.compiled import Array, compiled
from lvmdc.losses.base import Loss

ROWS = 1024  # boxes whose sums run side by side
TILE = 256  # numbers that are summed in their own precision, before float64 takes over


# Vector instructions work on the sums of many boxes at once, each in the order of the boxes h', so that nothing is reordered and the last
# digit does not depend on the machine. Arguments are separate, since tuples of arrays cost a third of the time for small samples.
@compiled(error_model="numpy")
def _add(
    x1: float, y1: float, x2: float, y2: float, size: float, p: float,
    left: Array, top: Array, right: Array, bottom: Array, area: Array, out: Array,
) -> None:  # pragma: no cover  # fmt: skip
    """out_i += p (1 − O) between one box and those of the arrays, all of one precision."""
    zero, one = out.dtype.type(0), out.dtype.type(1)
    for i in range(len(out)):
        width = max(min(x2, right[i]) - max(x1, left[i]), zero)
        height = max(min(y2, bottom[i]) - max(y1, top[i]), zero)
        common = width * height
        out[i] += p * (one - common / (size + area[i] - common))


@compiled()
def _sums(
    left: Array, top: Array, right: Array, bottom: Array, area: Array, p: Array, starts: Array, counts: Array, out: Array
) -> None:  # pragma: no cover
    part, whole = np.empty(ROWS, p.dtype), np.empty(ROWS)
    for s in range(len(starts)):
        first, last = starts[s], starts[s] + counts[s]
        for row in range(first, last, ROWS):
            i = slice(row, min(row + ROWS, last))
            few, total = part[: i.stop - row], whole[: i.stop - row]
            boxes = left[i], top[i], right[i], bottom[i], area[i]
            total[:] = 0.0
            for tile in range(first, last, TILE):
                few[:] = 0.0
                for j in range(tile, min(tile + TILE, last)):
                    _add(left[j], top[j], right[j], bottom[j], area[j], p[j], *boxes, few)
                total += few
            out[i] = total


class _Sums(torch.autograd.Function):
    """Linear in p and symmetric: the derivative is the same map."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, candidates: Candidates) -> Tensor:
        ctx.candidates = candidates
        assert candidates.boxes is not None
        x1, y1, x2, y2 = candidates.boxes.to(p.dtype).T
        tensors = x1, y1, x2, y2, (x2 - x1) * (y2 - y1), p.detach(), candidates.offsets, candidates.counts
        out = torch.empty(len(p), dtype=p.dtype)
        _sums(*(t.contiguous().numpy() for t in tensors), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _Sums.apply(grads[0], ctx.candidates), None


def expected_overlap_loss(candidates: Candidates, p: Tensor) -> Tensor:
    """(T,): Σ_h' p(h') (1 − O(h', h)) over the candidates h' of each sample, differentiable in p (T,), on a CPU.

    >>> pair = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [1, 0, 3, 2]])
    >>> expected_overlap_loss(pair, torch.tensor([1.0, 0.0]))
    tensor([0.0000, 0.6667])
    """
    return _Sums.apply(p, candidates)


class OverlapLoss(Loss):
    """Δ = 1 − O(h1, h2) where y1 = y2, 1 elsewhere; O is the intersection over union of the boxes (section 6.1).

    >>> pair = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [1, 0, 3, 2]])
    >>> OverlapLoss().between(pair, [0], [0], [0], [1])
    tensor([0.6667], dtype=torch.float64)
    """

    needs_boxes = True
    same_in_classes = True

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        assert h1.box is not None
        assert h2.box is not None
        overlap = box_iou(h1.box, h2.box)
        return torch.where(y1 == y2, 1 - overlap, torch.ones_like(overlap))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor:
        return (y1 != y2).to(torch.get_default_dtype())

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor | None:
        compiled = p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64)
        return expected_overlap_loss(candidates, p) if compiled else None
