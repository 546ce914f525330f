"""Objects tend to be in the middle of a photograph and to fill a good part of it."""

from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lvmdc.priors.base import Prior


class CentrePrior(Prior):
    """−strength/2 Σ over x, y of ((centre − ½) / spread)² + ((side − share) / spread)², all in units of the image's sides.

    Args:
        share: expected side of the box as a share of the image's.
        spread: standard deviation of the centre and of the side.
        strength: factor on the log weights; 1 is the Gaussian.

    >>> boxes = torch.tensor([[10.0, 10.0, 90.0, 90.0], [0.0, 0.0, 80.0, 80.0]])
    >>> CentrePrior(share=0.8, spread=0.1)(Image.new("RGB", (100, 100)), boxes)[1]  # one standard deviation off in x and in y
    tensor(-1.)
    """

    def __init__(self, share: float = 0.7, spread: float = 0.25, strength: float = 1.0):
        if not (0 < share <= 1 and spread > 0 and strength >= 0):
            raise ValueError(f"share must lie in (0, 1], spread be > 0, strength ≥ 0, but they are {share}, {spread}, {strength}")
        self.share, self.spread, self.strength = share, spread, strength

    def log_weights(self, image: Image.Image, boxes: Tensor) -> Tensor:
        corners = boxes.double() / torch.tensor([image.width, image.height] * 2)
        centre, side = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]  # (m, 2)
        off = torch.cat([centre - 0.5, side - self.share], dim=1) / self.spread  # (m, 4)
        return (-self.strength / 2 * off.square().sum(dim=1)).float()

    def settings(self) -> dict[str, Any]:
        return {"share": self.share, "spread": self.spread, "strength": self.strength}
