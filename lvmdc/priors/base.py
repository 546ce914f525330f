"""What a prior of h is, and the product of several."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from PIL import Image
from torch import Tensor


class Prior(ABC):
    """log π(h | x), up to a constant per image: which candidates are likely before any label is seen.

    A custom prior implements `log_weights` and `settings`. It must depend on the image, the boxes and the settings alone, unless it is not
    `fixed`: then it may learn from the training images (`fit`, `state_dict`) and suggest boxes of its own (`boxes`).

    >>> class Large(Prior):
    ...     def log_weights(self, image, boxes):
    ...         return (boxes[:, 2:] - boxes[:, :2]).prod(dim=1).log()
    ...     def settings(self):
    ...         return {}
    >>> Large()(Image.new("RGB", (6, 4)), torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 3.0, 2.0]])).exp()
    tensor([1., 6.])
    """

    fixed: bool = True  # whether it learns nothing in `fit` and suggests no boxes, so that its weights can be cached with the candidates

    def __call__(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m,) log weights of the (m, 4) boxes x1, y1, x2, y2 in an RGB image, checked; on the device of the boxes."""
        if boxes.dim() != 2 or boxes.shape[1] != 4:
            raise ValueError(f"boxes must have shape (m, 4), but they have shape {tuple(boxes.shape)}")
        weights = self.log_weights(image, boxes.cpu())  # images are on the CPU
        if weights.shape != (len(boxes),) or not bool(weights.isfinite().all()):
            raise ValueError(f"{self!r} must give {len(boxes)} finite log weights, but gave shape {tuple(weights.shape)} or infinite ones")
        return weights.to(boxes.device)

    @property
    def name(self) -> str:
        """What tables call it: `CommonObjectPrior` is `common object`."""
        return re.sub("(?<!^)([A-Z])", r" \1", type(self).__name__.removesuffix("Prior")).lower()

    @abstractmethod
    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m,) float32: log π(h | x) up to a constant."""

    def fit(self, images: Iterable[Image.Image]) -> "Prior":
        """Learn what the prior needs from the training images; most need nothing. `images` can be iterated over several times."""
        return self

    def boxes(self, image: Image.Image) -> Tensor:
        """(b, 4): boxes that the prior itself suggests as candidates; none by default."""
        return torch.zeros(0, 4)

    def columns(self, image: Image.Image, boxes: Tensor) -> Tensor:
        """(m, c): what the prior knows of the boxes as features, of about unit size; its log weights by default."""
        return self.log_weights(image, boxes)[:, None]

    def state_dict(self) -> dict[str, Any]:
        """What `fit` learned, as tensors and plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027  most priors have no state
        """Restore from `state_dict()`."""

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
        self.fixed = all(prior.fixed for prior in priors)

    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        return torch.stack([prior(image, boxes) for prior in self.priors]).sum(dim=0)

    def fit(self, images: Iterable[Image.Image]) -> "ProductPrior":
        for prior in self.priors:
            prior.fit(images)
        return self

    def boxes(self, image: Image.Image) -> Tensor:
        return torch.cat([prior.boxes(image) for prior in self.priors])

    def columns(self, image: Image.Image, boxes: Tensor) -> Tensor:
        return torch.cat([prior.columns(image, boxes) for prior in self.priors], dim=1)

    def state_dict(self) -> dict[str, Any]:
        return {str(i): prior.state_dict() for i, prior in enumerate(self.priors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for i, prior in enumerate(self.priors):
            prior.load_state_dict(state[str(i)])

    def settings(self) -> dict[str, Any]:
        return {"priors": [[type(prior).__name__, prior.settings()] for prior in self.priors]}
