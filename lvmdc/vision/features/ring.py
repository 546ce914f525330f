"""The ring around a box, from which a whole object differs more than a part of it."""

import torch
from torch import Tensor

RING = 1.8  # sides of the outer box, in sides of the box


def outer_boxes(boxes: Tensor, width: float, height: float, factor: float = RING) -> Tensor:
    """(m, 4): the boxes enlarged about their centres by `factor`, cut at the borders of the image.

    >>> outer_boxes(torch.tensor([[4.0, 4.0, 8.0, 8.0]]), 20.0, 7.0, factor=2.0)
    tensor([[ 2.,  2., 10.,  7.]])
    """
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, factor / 2 * (boxes[:, 2:] - boxes[:, :2])
    limit = torch.tensor([width, height], dtype=boxes.dtype, device=boxes.device)
    return torch.cat([(centre - half).clamp(min=0), torch.minimum(centre + half, limit)], dim=1)


def ring_means(inner: Tensor, outer: Tensor, boxes: Tensor, outer_box: Tensor) -> Tensor:
    """(m, d): the mean of a map over each ring, from its means over the boxes (m, d) and the outer boxes (m, d): those of boxes with
    nothing around them are zero. Negative numbers, which rounding at the borders may give, become zero, as the maps have none.

    >>> box, around = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([[0.0, 0.0, 2.0, 1.0]])
    >>> ring_means(torch.tensor([[1.0]]), torch.tensor([[2.0]]), box, around)
    tensor([[3.]])
    """
    area, whole = ((b[:, 2:] - b[:, :2]).prod(dim=1, keepdim=True).to(inner) for b in (boxes, outer_box))
    left = whole - area
    means = (whole * outer - area * inner) / left.clamp(min=torch.finfo(inner.dtype).tiny)
    return torch.where(left > 0.01 * area, means, torch.zeros_like(inner)).clamp(min=0)
