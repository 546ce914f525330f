"""What is computed from the means of a map over boxes: numbers of equal length, and the contrast with the ring around each box, from which
a whole object differs more than a part of it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit_length

from lvmdc.boxes import outer_boxes


def check_contrast(normalise: float | None, contrast: str | None) -> None:
    """Refuse settings of `described` that do not go together.

    >>> check_contrast(None, "ring")
    Traceback (most recent call last):
    ValueError: contrast='ring' compares numbers of equal length: it needs normalise, for instance 0
    """
    if normalise is not None and not 0 <= normalise < float("inf"):
        raise ValueError(f"normalise must be at least 0, or None, but it is {normalise}")
    if contrast not in (None, "ring"):
        raise ValueError(f"contrast must be 'ring' or None, but it is {contrast!r}")
    if contrast is not None and normalise is None:
        raise ValueError("contrast='ring' compares numbers of equal length: it needs normalise, for instance 0")


def described(
    pool: Callable[[Tensor], Tensor], boxes: Tensor, width: float, height: float, normalise: float | None, contrast: str | None
) -> Tensor:
    """(m, d): the means `pool(boxes)` of a map over boxes; with `normalise` = γ of length aᵞ, a the share of the image's area; and with
    `contrast="ring"` twice as many numbers, followed by their differences from those of the ring.

    >>> described(lambda boxes: torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0, 2.0, 2.0]]), 4.0, 4.0, normalise=0.5, contrast=None)
    tensor([[0.3000, 0.4000]])
    """
    means = pool(boxes)
    if normalise is None:
        return means
    length = ((boxes[:, 2:] - boxes[:, :2]).to(means).prod(dim=1, keepdim=True) / (width * height)) ** normalise
    numbers = length * unit_length(means)
    if contrast is None:
        return numbers
    outer = outer_boxes(boxes, width, height)
    ring = ring_means(means, pool(outer), boxes.to(means), outer.to(means))
    return torch.cat([numbers, numbers - length * unit_length(ring)], dim=1)


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
