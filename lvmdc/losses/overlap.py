"""The overlap loss of boxes."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.base import Loss
from lvmdc.losses.overlap_sums import expected_overlap_loss


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) that broadcast against each other, x1, y1, x2, y2 with x2 > x1 and y2 > y1.

    >>> box_iou(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([1.0, 0.0, 3.0, 2.0]))
    tensor(0.3333)
    """
    width = torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])
    height = torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])
    common = width.clamp(min=0) * height.clamp(min=0)
    return common / (box_area(a) + box_area(b) - common)


def box_area(boxes: Tensor) -> Tensor:
    """Areas of boxes, (…, 4) → (…).

    >>> box_area(torch.tensor([0.0, 0.0, 2.0, 3.0]))
    tensor(6.)
    """
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


class OverlapLoss(Loss):
    """Δ = 1 − O(h1, h2) where y1 = y2, 1 elsewhere; O is the intersection over union of the boxes (section 6.1).

    >>> pair = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [1, 0, 3, 2]])
    >>> OverlapLoss().between(pair, [0], [0], [0], [1])
    tensor([0.6667], dtype=torch.float64)
    """

    needs_boxes = True
    alike_in_classes = True

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
