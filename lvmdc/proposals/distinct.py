"""Boxes that are not all the same box: non-maximum suppression in a given order."""

import torch
from torch import Tensor
from torchvision.ops import nms


def distinct(boxes: Tensor, overlap: float, count: int) -> Tensor:
    """Indices of the first `count` of the (m, 4) boxes, in order, that no earlier one of them overlaps by more than `overlap`.

    >>> distinct(torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [2.0, 2.0, 4.0, 4.0]]), overlap=0.5, count=20)
    tensor([0, 2])
    """
    falling = -torch.arange(len(boxes), dtype=boxes.dtype)  # earlier boxes win
    return nms(boxes, falling, overlap)[:count]
