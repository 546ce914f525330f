"""What a describer of candidates is."""

from abc import ABC, abstractmethod
from typing import Any

from PIL import Image
from torch import Tensor


class Features(ABC):
    """What a candidate looks like: the numbers that stand for each box of a picture in Ψ(x, y, h).

    A description of one's own implements `describe` and `settings`. It must depend on the picture, the boxes and the settings
    alone, since results are cached under these.

    >>> import torch
    >>> class Area(Features):
    ...     def describe(self, image, boxes):
    ...         return ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))[:, None]
    ...     def settings(self):
    ...         return {}
    >>> Area().describe(Image.new("RGB", (6, 4)), torch.tensor([[0.0, 0.0, 3.0, 2.0]]))
    tensor([[6.]])
    """

    @abstractmethod
    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m, d) float32 features of the (m, 4) boxes in an RGB picture; d is the same for all pictures."""

    def describe_named(self, image: Image.Image, name: str, boxes: Tensor) -> Tensor:
        """`describe`, for features that are looked up by the picture's name rather than computed from its pixels."""
        return self.describe(image, boxes)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the features depend on beside the picture and the boxes, as plain values that JSON can write."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"
