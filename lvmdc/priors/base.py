"""What a prior of h is, and the product of several."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from PIL import Image
from torch import Tensor


class Prior(ABC):
    """log π(h | x), up to a constant per image: which candidates are likely before any label is seen.

    A custom prior implements `log_weights` and `settings`. It must depend on the image, the boxes and the settings alone.

    >>> class Large(Prior):
    ...     def log_weights(self, image, boxes):
    ...         return (boxes[:, 2:] - boxes[:, :2]).prod(dim=1).log()
    ...     def settings(self):
    ...         return {}
    >>> Large()(Image.new("RGB", (6, 4)), torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 3.0, 2.0]])).exp()
    tensor([1., 6.])
    """

    def __call__(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m,) log weights of the (m, 4) boxes x1, y1, x2, y2 in an RGB image, checked."""
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise ValueError(f"boxes must have shape (m, 4), but they have shape {tuple(boxes.shape)}")
        weights = self.log_weights(image, boxes)
        if weights.shape != (len(boxes),) or not bool(weights.isfinite().all()):
            raise ValueError(f"{self!r} must give {len(boxes)} finite log weights, but gave shape {tuple(weights.shape)} or infinite ones")
        return weights

    @abstractmethod
    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m,) float32: log π(h | x) up to a constant."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the weights depend on beside the image and the boxes, as plain values that JSON can write."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


class ProductPrior(Prior):
    """π(h | x) ∝ Π_k π_k(h | x): log weights are added.

    >>> from lvmdc.priors import CentrePrior
    >>> box = torch.tensor([[0.0, 0.0, 4.0, 2.0]])
    >>> one, image = CentrePrior(), Image.new("RGB", (8, 8))
    >>> torch.equal(ProductPrior(one, one)(image, box), 2 * one(image, box))
    True
    """

    def __init__(self, *priors: Prior):
        if not priors:
            raise ValueError("ProductPrior needs at least one prior, but got none")
        self.priors = priors

    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        return torch.stack([prior(image, boxes) for prior in self.priors]).sum(dim=0)

    def settings(self) -> dict[str, Any]:
        return {"priors": [[type(prior).__name__, prior.settings()] for prior in self.priors]}
