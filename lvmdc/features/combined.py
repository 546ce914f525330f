"""Several descriptions of a candidate, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lvmdc.features.base import Features


class Concatenated(Features):
    """The numbers of each part in turn, times its weight.

    In a linear score under a norm of w a part counts by the squared length of its numbers. HOG and CNN have about the same length as they
    come; `weights` sets another balance.

    Args:
        parts: the descriptions, by name or in order.
        weights: a factor for each, by the same names or in the same order; 1 where not given.

    >>> from lvmdc.features.hog import HOG
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
            raise ValueError("parts must hold at least one description, but it is empty")
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
        """Names are not among them: they change no number."""

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
