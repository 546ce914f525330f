"""What turns the boxes of an image into features."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor


class Features(ABC):
    """What a candidate looks like: the numbers of each box of an image in Ψ(x, y, h).

    Custom features implement `describe` and `settings`. They must depend on the image, the boxes and the settings alone, since results are
    cached under these.

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
        """(m, d) float32 features of the (m, 4) boxes in an RGB image; d is the same for all images."""

    def describe_named(self, image: Image.Image, name: str, boxes: Tensor) -> Tensor:
        """`describe`, for features that are looked up by the image's name."""
        return self.describe(image, boxes)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the features depend on besides the image and the boxes, as plain values for JSON."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


def pixel_corners(image: Image.Image, boxes: Tensor) -> list[tuple[int, int, int, int]]:
    """The boxes in whole pixels; one that is not inside the image, or is less than a pixel, is refused.

    >>> pixel_corners(Image.new("RGB", (6, 4)), torch.tensor([[0.4, 1.0, 5.6, 4.2]]))
    [(0, 1, 6, 4)]
    """
    corners = [(x1, y1, x2, y2) for x1, y1, x2, y2 in boxes.round().long().tolist()]
    for i, (x1, y1, x2, y2) in enumerate(corners):
        if x1 < 0 or y1 < 0 or x2 > image.width or y2 > image.height or x2 <= x1 or y2 <= y1:
            inside = f"the image, {image.width} by {image.height} pixels"
            raise ValueError(f"boxes must lie inside {inside}, and be at least one pixel, but boxes[{i}] is {boxes[i].tolist()}")
    return corners


class Concatenated(Features):
    """Several features of a candidate, one after the other, each times its weight.

    In a linear score under a norm of w a part counts by the squared length of its numbers. HOG and CNN have about the same length by
    default; `weights` sets another balance.

    Args:
        parts: features, by name or in order.
        weights: a factor for each, by the same names or in the same order; default 1.

    >>> from lvmdc.vision.features.hog import HOG
    >>> both = Concatenated([HOG(cell=16), HOG(cell=8)], weights=[0.5, 1.0])
    >>> both.describe(Image.new("RGB", (32, 32)), torch.tensor([[0.0, 0.0, 32.0, 32.0]])).shape
    torch.Size([1, 360])
    """

    def __init__(
        self,
        parts: Sequence[Features] | Mapping[str, Features],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ):
        self.parts = _by_name(parts)
        if not self.parts:
            raise ValueError("parts must hold at least one of Features, but it is empty")
        for name, part in self.parts.items():
            if not isinstance(part, Features):
                raise TypeError(f"parts must be Features, but parts[{name}] is {part!r}")
        given = dict.fromkeys(self.parts, 1.0) if weights is None else _by_name(weights)
        if set(given) != set(self.parts):
            raise ValueError(f"weights must have one factor for each of the parts {list(self.parts)}, but it has those of {list(given)}")
        self.weights = {name: float(given[name]) for name in self.parts}
        for name, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise ValueError(f"weights must be positive, but that of {name} is {weight}")

    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        return self._joined([part.describe(image, boxes) for part in self.parts.values()])

    def describe_named(self, image: Image.Image, name: str, boxes: Tensor) -> Tensor:
        return self._joined([part.describe_named(image, name, boxes) for part in self.parts.values()])

    def settings(self) -> dict[str, Any]:
        """Without the names, which change no number."""

        def described(name: str, part: Features) -> dict[str, Any]:
            kind = f"{type(part).__module__}.{type(part).__qualname__}"
            return {"kind": kind, "weight": self.weights[name], "settings": part.settings()}

        return {"parts": [described(name, part) for name, part in self.parts.items()]}

    def __repr__(self) -> str:
        return f"Concatenated({', '.join(f'{self.weights[name]:g} × {part!r}' for name, part in self.parts.items())})"

    def _joined(self, numbers: list[Tensor]) -> Tensor:
        return torch.cat([weight * part for weight, part in zip(self.weights.values(), numbers, strict=True)], dim=1)


def _by_name(values: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    return dict(values) if isinstance(values, Mapping) else {str(i): value for i, value in enumerate(values)}
