"""The object that all images share, from the maps of a network that was trained on other images.

Wei, Zhang, Wu, Shen, Zhou: Unsupervised object discovery and co-localization by deep descriptor transforming. Pattern Recognition 88, 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from lvmdc.priors.object_box import STRENGTH, ObjectBoxPrior, largest_region

if TYPE_CHECKING:
    from lvmdc.vision.features.cnn import CNN

FINER = 8  # cells of the enlarged map to a cell of the map


class CommonObjectPrior(ObjectBoxPrior):
    """b(x) bounds the largest region where the first principal component of the network's map is positive.

    `fit` takes the map of every training image and finds the direction in which its cells, of all images and positions together, vary most:
    with a classifier's map that is what distinguishes the object that most of the images show from their backgrounds. Its sign is the one
    for which cells with long vectors are positive. It needs no label and no box. The map of an image is projected on the direction,
    enlarged 8 times (bilinear), and cut at 0.

    Args:
        network: features in mode "roi". With the same settings and `maps_dir` as those of the candidates, no image goes through the network
            twice. At 512 pixels a map of stride 32 works, and one of stride 16 does not.
        strength: log weight of b(x).
        mass: as in `ObjectBoxPrior`, of the positive part of the projection.
        suggests: as in `ObjectBoxPrior`.

    >>> from lvmdc.vision.features import CNN
    >>> network = CNN("mobilenet_v3_small", mode="roi", longer_side=64, weights=None)
    >>> images = [Image.linear_gradient("L").convert("RGB"), Image.new("RGB", (64, 64), "blue")]
    >>> CommonObjectPrior(network).fit(images).box(images[0]).shape
    torch.Size([4])
    """

    learns = True

    def __init__(self, network: CNN, strength: float = STRENGTH, mass: bool = False, suggests: bool = True):
        super().__init__(strength, mass, suggests)
        if getattr(network, "mode", None) != "roi":
            expected = "features of one map per image, as CNN(mode='roi') or features=cnn_roi"
            raise ValueError(f"CommonObjectPrior needs {expected}, but network is {network!r}; use these, or another prior")
        self.network = network
        self.mean: Tensor | None = None
        self.direction: Tensor | None = None

    def fit(self, images: Iterable[Image.Image]) -> CommonObjectPrior:
        total = second = weighted = torch.zeros((), dtype=torch.float64)
        count, length = 0, 0.0
        for image in images:
            cells = self.network.map(image).flatten(1).T  # (h·w, channels)
            norms = cells.norm(dim=1).double()
            total = total + cells.sum(dim=0, dtype=torch.float64)
            second = second + (cells.T @ cells).double()
            weighted = weighted + norms @ cells.double()
            count, length = count + len(cells), length + float(norms.sum())
        if count == 0:
            raise ValueError("CommonObjectPrior must be fitted on at least one image, but got none")
        mean = total / count
        direction = torch.linalg.eigh(second / count - mean[:, None] * mean)[1][:, -1]
        # The covariance of the projection with the length of a cell.
        rises = float(direction @ (weighted - mean * length)) >= 0
        self.mean, self.direction = mean.float(), (direction if rises else -direction).float()
        return self

    def component(self, image: Image.Image) -> Tensor:
        """(h, w): the map of an image, less the mean of the training images, along the direction."""
        if self.mean is None or self.direction is None:
            raise ValueError("CommonObjectPrior must be fitted before it is used: call fit with the training images")
        cells = self.network.map(image)
        return torch.einsum("chw,c->hw", cells - self.mean[:, None, None], self.direction)

    def density(self, image: Image.Image) -> Tensor:
        return self.component(image).clamp(min=0)

    def box(self, image: Image.Image) -> Tensor:
        finer = interpolate(self.component(image)[None, None], scale_factor=FINER, mode="bilinear", align_corners=False)[0, 0]
        return largest_region((finer > 0).numpy(), *image.size)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.mean is None else {"mean": self.mean, "direction": self.direction}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        n = self.network.network.channels
        for name in ("mean", "direction"):
            if name not in state or tuple(state[name].shape) != (n,):
                raise ValueError(f"the state of CommonObjectPrior must hold {name} of shape ({n},), but it does not")
        self.mean, self.direction = state["mean"].float(), state["direction"].float()

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"network": self.network.settings()}
