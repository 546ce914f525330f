"""Pictures as a network takes them, kept from one epoch to the next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.data.pictures import PictureSet
from lvmdc.features.regions import RegionNetwork

LIMIT = 1 << 30  # bytes of pictures that stay in memory; the others are read anew


@dataclass(frozen=True)
class View:
    """A picture as `RegionNetwork` takes it.

    Args:
        picture: its pixels, or what the frozen part of the network made of them.
        width: of these pixels.
        factors: (4,) that corners of boxes in the picture are multiplied by to be among these pixels.
        mirrored: whether left and right are exchanged.

    >>> View(torch.zeros(3, 4, 8), width=8, factors=torch.full((4,), 0.5), mirrored=True).places(torch.tensor([[0.0, 2.0, 4.0, 8.0]]))
    tensor([[6., 1., 8., 4.]])
    """

    picture: Tensor
    width: int
    factors: Tensor
    mirrored: bool = False

    def places(self, boxes: Tensor) -> Tensor:
        """Where the boxes (m, 4) of the picture are then."""
        places = boxes.to(torch.float32) * self.factors
        if not self.mirrored:
            return places
        x1, y1, x2, y2 = places.unbind(1)
        return torch.stack([self.width - x2, y1, self.width - x1, y2], dim=1)


class KeptPictures:
    """Views of pictures for a network, made once while there is room for them.

    Args:
        network: whose frozen part, where it has one, is not to run again for a picture that it has seen.

    >>> network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, frozen="layers.5")
    >>> kept = KeptPictures(network)
    >>> kept.begun(PictureSet([torch.zeros(24, 32, dtype=torch.uint8).numpy()], ["digit"], [0]), 0).picture.shape
    torch.Size([32, 24, 32])
    """

    def __init__(self, network: RegionNetwork):
        self.network = network
        self._views: dict[tuple[str, int, bool, bool], View] = {}
        self._bytes = 0

    def pixels(self, items: PictureSet, i: int) -> View:
        """Picture i at the size that the network takes."""
        return self._view(items, i, begin=False, mirrored=False)

    def begun(self, items: PictureSet, i: int, mirrored: bool = False) -> View:
        """Picture i, or its mirror image, as the frozen part of the network leaves it."""
        return self._view(items, i, begin=self.network.frozen is not None, mirrored=mirrored)

    def _view(self, items: PictureSet, i: int, begin: bool, mirrored: bool) -> View:
        key = (items.names[i], id(items.sources[i]), begin, mirrored)  # a part of a set has the very same sources
        if key not in self._views:
            image = items.image(i)
            pixels, _ = self.network.prepare(image, torch.zeros(0, 4))
            height, width = pixels.shape[1:]
            picture = pixels.flip(2) if mirrored else pixels
            view = View(
                self.network.begin(picture).cpu() if begin else picture,
                width,
                torch.tensor([width / image.width, height / image.height] * 2),
                mirrored,
            )
            size = view.picture.numel() * view.picture.element_size()
            if self._bytes + size > LIMIT:
                return view
            self._views[key] = view
            self._bytes += size
        return self._views[key]
