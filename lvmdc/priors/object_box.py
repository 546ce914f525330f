"""Priors from one box per image: the candidates that overlap it are likely."""

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy import ndimage
from torch import Tensor
from torch.nn.functional import pad

from lvmdc.boxes import box_iou, outer_boxes
from lvmdc.priors.base import Prior

STRENGTH = 10.0


class ObjectBoxPrior(Prior):
    """log π(h | x) = strength · IoU(h, b(x)), where b(x) is where the object seems to be.

    Several of them are combined by `ProductPrior`. Where b(x) itself is among the candidates (see `with_prior`), the product of several
    such priors gives each one's box about the same weight, and the labels decide between them.

    A custom prior of this kind implements `box` and `settings`, and `density` if it has one.

    Args:
        strength: log weight of b(x) itself, against 0 for a box that does not touch it.
        mass: beside the overlap with b(x), give features two columns more (`columns`): the share of the `density` that is inside the box,
            and the share that is in the ring around it.
        suggests: whether b(x) itself becomes a candidate. False: the candidates stay as they are, as published windows must.
    """

    learns = False  # whether b(x) depends on the training images

    def __init__(self, strength: float = STRENGTH, mass: bool = False, suggests: bool = True):
        if not 0 <= strength < float("inf"):
            raise ValueError(f"strength must be at least 0 and finite, but it is {strength}")
        self.strength, self.mass, self.suggests = float(strength), mass, suggests
        self.fixed = not (suggests or self.learns)

    @abstractmethod
    def box(self, image: Image.Image) -> Tensor:
        """(4,) float32: corners x1, y1, x2, y2 in pixels, inside the image."""

    def density(self, image: Image.Image) -> Tensor:
        """(h, w) of at least 0: how much of the object each cell of the image seems to hold."""
        raise NotImplementedError(f"{type(self).__name__} knows a box alone, so that it has no mass; use mass=False")

    def boxes(self, image: Image.Image) -> Tensor:
        return self.box(image)[None] if self.suggests else torch.zeros(0, 4)

    def columns(self, image: Image.Image, boxes: Tensor) -> Tensor:
        overlap = box_iou(boxes, self.box(image)[None].to(boxes))[:, None]
        if not self.mass:
            return overlap
        density = self.density(image)
        inside = mass_inside(density, boxes, *image.size)
        around = mass_inside(density, outer_boxes(boxes, *image.size), *image.size) - inside
        return torch.cat([overlap, torch.stack([inside, around], dim=1).to(overlap)], dim=1)

    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        return self.strength * box_iou(boxes, self.box(image)[None].to(boxes))

    def settings(self) -> dict[str, Any]:
        own = {"mass": True} if self.mass else {}
        return {"strength": self.strength} | own | ({} if self.suggests else {"suggests": False})


class CentredBoxPrior(ObjectBoxPrior):
    """Photographs are taken of something: a box in the middle, `share` of the image's width and height.

    >>> prior = CentredBoxPrior(share=0.5)
    >>> prior.box(Image.new("RGB", (8, 4)))
    tensor([2., 1., 6., 3.])
    >>> prior(Image.new("RGB", (8, 4)), torch.tensor([[2.0, 1.0, 6.0, 3.0], [0.0, 0.0, 8.0, 4.0]]))
    tensor([10.0000,  2.5000])
    """

    def __init__(self, share: float = 0.7, strength: float = STRENGTH, suggests: bool = True):
        super().__init__(strength, suggests=suggests)
        if not 0 < share <= 1:
            raise ValueError(f"share must lie in (0, 1], but it is {share}")
        self.share = share

    def box(self, image: Image.Image) -> Tensor:
        sides = torch.tensor([image.width, image.height] * 2, dtype=torch.float32)
        first = (1 - self.share) / 2
        return sides * torch.tensor([first, first, 1 - first, 1 - first])

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"share": self.share}


def mass_inside(density: Tensor, boxes: Tensor, width: float, height: float) -> Tensor:
    """(m,): the share of a density (h, w), constant in each cell of an image of `width` by `height`, that lies in each box.

    >>> mass_inside(torch.tensor([[3.0, 1.0]]), torch.tensor([[0.0, 0.0, 2.0, 4.0], [2.0, 0.0, 4.0, 2.0]]), 4.0, 4.0)
    tensor([0.7500, 0.1250], dtype=torch.float64)
    """
    density = density.to(boxes.device, torch.float64)
    below = pad(density.cumsum(0).cumsum(1), (1, 0, 1, 0))  # (h + 1, w + 1): the mass left of and above each corner of the cells
    rows, columns = density.shape
    x, y = boxes.double()[:, ::2] * columns / width, boxes.double()[:, 1::2] * rows / height  # (m, 2): first and last

    def up_to(u: Tensor, v: Tensor) -> Tensor:
        j, i = u.long().clamp(0, columns - 1), v.long().clamp(0, rows - 1)
        a, b = (u - j).clamp(0, 1), (v - i).clamp(0, 1)
        upper, lower = ((1 - a) * below[k, j] + a * below[k, j + 1] for k in (i, i + 1))
        return (1 - b) * upper + b * lower

    total = below[-1, -1].clamp(min=torch.finfo(torch.float64).tiny)
    return (up_to(x[:, 1], y[:, 1]) - up_to(x[:, 0], y[:, 1]) - up_to(x[:, 1], y[:, 0]) + up_to(x[:, 0], y[:, 0])) / total


def largest_region(mask: np.ndarray, width: float, height: float) -> Tensor:
    """(4,): the bounding box of the largest connected region of a mask (h, w), in an image of `width` by `height`; the whole image where
    the mask is empty. Cells are connected by their sides, and the box is rounded outwards to whole pixels.

    >>> mask = np.zeros((4, 4), bool)
    >>> mask[0, 0] = mask[2:, 1:3] = True
    >>> largest_region(mask, 8.0, 4.0)
    tensor([2., 2., 6., 4.])
    """
    regions, count = ndimage.label(mask)
    if count == 0:
        return torch.tensor([0.0, 0.0, width, height])
    largest = 1 + int(np.argmax(np.bincount(regions.ravel())[1:]))
    rows, columns = ndimage.find_objects((regions == largest).astype(np.int32))[0]
    across, down = width / mask.shape[1], height / mask.shape[0]
    first, last = np.floor([columns.start * across, rows.start * down]), np.ceil([columns.stop * across, rows.stop * down])
    return torch.tensor([*first, min(last[0], width), min(last[1], height)], dtype=torch.float32)
