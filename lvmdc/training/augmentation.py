"""Other views of a picture, with its boxes where they then are."""

from __future__ import annotations

import torch
from torch import Tensor


class Augmentation:
    """A random view of a picture: mirrored, larger or smaller, in other colours. Which candidate is which stays the same, so that losses,
    starts and the truth do.

    Args:
        flip: how often left and right are exchanged. 0 where that makes another class, as of digits.
        scale: the least and the most that sides are multiplied by.
        colour: how far brightness, contrast and saturation may go from 1.

    >>> pixels, boxes = torch.zeros(3, 8, 16, dtype=torch.uint8), torch.tensor([[0.0, 0.0, 4.0, 8.0]])
    >>> Augmentation(flip=1.0, scale=(2.0, 2.0))(pixels, boxes, step=8)[1]
    tensor([[24.,  0., 32., 16.]])
    """

    def __init__(self, flip: float = 0.5, scale: tuple[float, float] = (0.8, 1.25), colour: float = 0.2):
        if not 0 <= flip <= 1:
            raise ValueError(f"flip must lie in 0..1, but it is {flip}")
        if not 0 < scale[0] <= scale[1]:
            raise ValueError(f"scale must be (least, most) with 0 < least ≤ most, but it is {tuple(scale)}")
        if not 0 <= colour < 1:
            raise ValueError(f"colour must lie in 0..1, but it is {colour}")
        self.flip, self.scale, self.colour = flip, (float(scale[0]), float(scale[1])), colour

    @property
    def only_mirrors(self) -> bool:
        """Whether there are but two views: the picture and its mirror image."""
        return self.scale == (1.0, 1.0) and not self.colour

    def __call__(self, pixels: Tensor, boxes: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Pixels (3, h, w) in 0..255 and boxes (m, 4) of a view whose sides are multiples of `step`; drawn from torch's generator."""
        from torchvision import tv_tensors  # torchvision takes as long to load as torch itself
        from torchvision.transforms import v2

        height, width = pixels.shape[-2:]
        least, most = self.scale
        factor = least * (most / least) ** float(torch.rand(()))
        size = [max(step, step * round(side * factor / step)) for side in (height, width)]
        changes: list[torch.nn.Module] = [v2.RandomHorizontalFlip(self.flip)]
        if size != [height, width]:
            changes.append(v2.Resize(size, antialias=True))
        if self.colour:
            changes.append(v2.ColorJitter(self.colour, self.colour, self.colour))
        places = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))
        image, moved = v2.Compose(changes)(tv_tensors.Image(pixels), places)
        return image.as_subclass(Tensor), moved.as_subclass(Tensor)
