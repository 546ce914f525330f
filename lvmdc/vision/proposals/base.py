"""The base class of sources of candidate boxes."""

from abc import ABC, abstractmethod
from typing import Any

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
