"""What sources of candidate boxes have in common, and the simplest one, windows on a grid."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor


class Proposals(ABC):
    """The candidate boxes of an image: what the latent variable may be.

    Custom proposals implement `boxes` and `settings`. The boxes must depend on the image, its name and the settings alone, since results
    are cached under these.

    >>> import torch
    >>> class Whole(Proposals):
    ...     def boxes(self, image, name):
    ...         return torch.tensor([[0.0, 0.0, image.width, image.height]])
    ...     def settings(self):
    ...         return {}
    >>> Whole().boxes(Image.new("RGB", (6, 4)), "a")
    tensor([[0., 0., 6., 4.]])
    """

    @abstractmethod
    def boxes(self, image: Image.Image, name: str) -> Tensor:
        """(m, 4) float32 corners x1, y1, x2, y2 inside the image, m ≥ 1."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the boxes depend on besides the image and its name, as plain values for JSON."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


def resized(image: Image.Image, longer_side: int) -> tuple[Image.Image, np.ndarray]:
    """The image in RGB with a longer side of `longer_side` pixels, and (4,) the factors on x1, y1, x2, y2 that lead back."""
    scale = longer_side / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    method = Image.Resampling.BOX if scale < 1 else Image.Resampling.BILINEAR
    return image.convert("RGB").resize((width, height), method), np.tile([image.width / width, image.height / height], 2)


def digest(boxes: Mapping[str, Tensor]) -> str:
    """SHA-256 of boxes by the names of their images."""
    text = "".join(f"{len(name)} {name} {boxes[name].tolist()}" for name in sorted(boxes))
    return hashlib.sha256(text.encode()).hexdigest()


class WindowGrid(Proposals):
    """Windows of a fixed size, `stride` pixels apart, all inside the image; the rest is margin on both sides.

    Args:
        size: width and height of a window at scale 1.
        stride: pixels between windows at scale 1, in both directions; it grows with the scale.
        scales: factors on `size` and `stride`. A scale whose window does not fit is left out; if none fits, the whole image is one window.
        max_boxes: if there would be more, the stride grows until there are not.

    >>> WindowGrid().boxes(Image.new("RGB", (64, 64)), "a").shape
    torch.Size([25, 4])
    """

    def __init__(self, size: tuple[int, int] = (32, 32), stride: int = 8, scales: Sequence[float] = (1.0,), max_boxes: int = 350):
        if len(size) != 2 or min(size) < 1:
            raise ValueError(f"size must be (width, height) of at least 1 pixel, but it is {tuple(size)}")
        if stride < 1:
            raise ValueError(f"stride must be at least 1 pixel, but it is {stride}")
        if not scales or min(scales) <= 0:
            raise ValueError(f"scales must be one or more positive factors, but it is {tuple(scales)}")
        if max_boxes < len(scales):
            raise ValueError(f"max_boxes must be at least the number of scales = {len(scales)}, but it is {max_boxes}")
        self.size, self.stride, self.scales, self.max_boxes = (size[0], size[1]), stride, tuple(scales), max_boxes

    def boxes(self, image: Image.Image, name: str) -> Tensor:
        sizes = [(max(1, round(self.size[0] * s)), max(1, round(self.size[1] * s)), s) for s in self.scales]
        sizes = [(w, h, s) for w, h, s in sizes if w <= image.width and h <= image.height]
        if not sizes:
            return torch.tensor([[0.0, 0.0, image.width, image.height]])
        stride = self.stride
        while self._count(image, sizes, stride) > self.max_boxes:
            stride += 1
        return torch.cat([_grid(image, w, h, _step(stride, s)) for w, h, s in sizes])

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("size", "stride", "scales", "max_boxes")}

    @staticmethod
    def _count(image: Image.Image, sizes: list[tuple[int, int, float]], stride: int) -> int:
        return sum(((image.width - w) // _step(stride, s) + 1) * ((image.height - h) // _step(stride, s) + 1) for w, h, s in sizes)


def _step(stride: int, scale: float) -> int:
    return max(1, round(stride * scale))


def _grid(image: Image.Image, width: int, height: int, step: int) -> Tensor:
    x = torch.arange((image.width - width) % step // 2, image.width - width + 1, step)
    y = torch.arange((image.height - height) % step // 2, image.height - height + 1, step)
    top, left = torch.meshgrid(y, x, indexing="ij")
    corners = torch.stack([left, top, left + width, top + height], dim=-1)
    return corners.reshape(-1, 4).to(torch.float32)
