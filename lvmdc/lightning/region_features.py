"""Candidates of images that a network describes: random views, images kept in memory, and their features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.lightning.data import Samples
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.regions import LengthNorm, RegionNetwork

LIMIT = 1 << 30  # bytes of images that stay in memory; the others are read again
TOGETHER = 4  # images that are described at once, where there is no gradient


class Augmentation:
    """A random view of an image: mirrored, scaled, in other colours. The candidates keep their order, so that losses, starts and the truth
    stay valid.

    Args:
        flip: the probability of exchanging left and right. 0 where that makes another class, as of digits.
        scale: the smallest and the largest factor of the sides.
        colour: how far brightness, contrast and saturation may differ from 1.

    >>> pixels, boxes = torch.zeros(3, 8, 16, dtype=torch.uint8), torch.tensor([[0.0, 0.0, 4.0, 8.0]])
    >>> Augmentation(flip=1.0, scale=(2.0, 2.0))(pixels, boxes, step=8)[1]
    tensor([[24.,  0., 32., 16.]])
    """

    def __init__(self, flip: float = 0.5, scale: tuple[float, float] = (0.8, 1.25), colour: float = 0.2):
        if not 0 <= flip <= 1:
            raise ValueError(f"flip must lie in 0..1, but it is {flip}")
        if not 0 < scale[0] <= scale[1]:
            raise ValueError(f"scale must be (least, most) with 0 < least ≤ most, but it is {tuple(scale)}")
        if not 0 <= colour < 1:
            raise ValueError(f"colour must lie in 0..1, but it is {colour}")
        self.flip, self.scale, self.colour = flip, (float(scale[0]), float(scale[1])), colour

    @property
    def only_mirrors(self) -> bool:
        """Whether there are only two views, the image and its mirror image."""
        return self.scale == (1.0, 1.0) and not self.colour

    def __call__(self, pixels: Tensor, boxes: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Pixels (3, h, w) in 0..255 and boxes (m, 4) of a view whose sides are multiples of `step`; drawn from torch's generator."""
        from torchvision import tv_tensors  # torchvision takes as long to load as torch itself
        from torchvision.transforms import v2

        height, width = pixels.shape[-2:]
        least, most = self.scale
        factor = least * (most / least) ** float(torch.rand(()))
        size = [max(step, step * round(side * factor / step)) for side in (height, width)]
        changes: list[torch.nn.Module] = [v2.RandomHorizontalFlip(self.flip)]
        if size != [height, width]:
            changes.append(v2.Resize(size, antialias=True))
        if self.colour:
            changes.append(v2.ColorJitter(self.colour, self.colour, self.colour))
        places = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))
        image, moved = v2.Compose(changes)(tv_tensors.Image(pixels), places)
        return image.as_subclass(Tensor), moved.as_subclass(Tensor)


@dataclass(frozen=True)
class View:
    """An image as `RegionNetwork` takes it: its pixels, or what the frozen part of the network made of them; their width; factors (4,)
    from the image's coordinates to those of these pixels; and whether left and right are exchanged.

    >>> View(torch.zeros(3, 4, 8), width=8, factors=torch.full((4,), 0.5), mirrored=True).places(torch.tensor([[0.0, 2.0, 4.0, 8.0]]))
    tensor([[6., 1., 8., 4.]])
    """

    image: Tensor
    width: int
    factors: Tensor
    mirrored: bool = False

    def places(self, boxes: Tensor) -> Tensor:
        """The boxes (m, 4) of the image in the view."""
        places = boxes.to(torch.float32) * self.factors
        if not self.mirrored:
            return places
        x1, y1, x2, y2 = places.unbind(1)
        return torch.stack([self.width - x2, y1, self.width - x1, y2], dim=1)


class RegionFeatures:
    """Describes samples of images with boxes by the current weights of a `RegionNetwork`.

    Views of images are kept while there is room for them, so that the frozen part of the network runs once per image.
    """

    def __init__(self, network: RegionNetwork):
        self.network = network
        self.kept: dict[tuple[str, int, bool, bool], View] = {}

    def __call__(self, samples: Samples, augmentation: Augmentation | None = None) -> Candidates:
        """The candidates with features of Ψ, and of Φ if it has its own, differentiable in the network's weights."""
        psi, phi = self.network(*self._views(samples, augmentation))
        return self._candidates(samples, psi, phi)

    @torch.no_grad()
    def describe(self, samples: Samples, calibrate: bool = False, progress: bool = False) -> Candidates:
        """The same for a whole set, without derivatives, on the CPU. With `calibrate`, the set determines the length of the features."""
        network = self.network.eval()
        psi, phi = [], []
        parts = torch.arange(len(samples)).split(TOGETHER)
        for index in tqdm(parts, desc="features", unit="batch", disable=not progress, leave=False):
            one, two = network.pool(*self._views(samples.subset(index)))
            psi.append(one.cpu())
            phi += [] if two is None else [two.cpu()]
        found = [self._scaled(network.length, torch.cat(psi), calibrate)]
        found += [self._scaled(network.theta_length, torch.cat(phi), calibrate)] if network.theta_length is not None else []
        return self._candidates(samples, found[0], found[1] if len(found) > 1 else None)

    @staticmethod
    def _scaled(norm: LengthNorm, x: Tensor, calibrate: bool) -> Tensor:
        if calibrate:
            norm.calibrate(x.double().square().sum(dim=1).mean())
        return norm(x)

    def _views(self, samples: Samples, augmentation: Augmentation | None = None) -> tuple[list[Tensor], list[Tensor]]:
        items, boxes = samples.items, samples.candidates.boxes
        if not isinstance(items, ImageSet) or boxes is None:
            raise ValueError("a network that learns from pixels needs images with boxes, but the data have none; use module=alternating")
        views = []
        for i, own in enumerate(boxes.cpu().split(samples.candidates.counts.tolist())):
            if augmentation is None or (self.network.frozen is not None and augmentation.only_mirrors):
                mirrored = augmentation is not None and bool(torch.rand(()) < augmentation.flip)
                view = self._view(items, i, self.network.frozen is not None, mirrored)
                views.append((view.image, view.places(own)))
            else:
                view = self._view(items, i)
                pixels, places = augmentation(view.image, view.places(own), self.network.stride)
                views.append((self.network.begin(pixels), places))
        return [image for image, _ in views], [places for _, places in views]

    def _view(self, items: ImageSet, i: int, begin: bool = False, mirrored: bool = False) -> View:
        """Image i, or its mirror image, at the size that the network takes; with `begin`, as its frozen part leaves it."""
        key = (items.names[i], id(items.sources[i]), begin, mirrored)  # a part of a set has the very same sources
        if key in self.kept:
            return self.kept[key]
        image = items.image(i)
        pixels, _ = self.network.prepare(image, torch.zeros(0, 4))
        height, width = pixels.shape[1:]
        pixels = pixels.flip(2) if mirrored else pixels
        factors = torch.tensor([width / image.width, height / image.height] * 2)
        view = View(self.network.begin(pixels).cpu() if begin else pixels, width, factors, mirrored)
        if sum(one.image.nbytes for one in (view, *self.kept.values())) <= LIMIT:
            self.kept[key] = view
        return view

    @staticmethod
    def _candidates(samples: Samples, psi: Tensor, phi: Tensor | None) -> Candidates:
        c = samples.candidates
        columns = c.features[:, 1:].to(psi)  # of the prior; the first is a placeholder for what is learned
        try:
            features = torch.cat([psi.float() if psi.dtype != torch.float64 else psi, columns], dim=1)
            return Candidates(features, c.counts, c.boxes, None if phi is None else phi.to(psi.dtype), c.prior)
        except ValueError as error:
            raise ValueError(f"the network's {error}; a lower rate of module.optimizer_backbone may help") from None
