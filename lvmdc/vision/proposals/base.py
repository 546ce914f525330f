"""What sources of candidate boxes have in common."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
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
