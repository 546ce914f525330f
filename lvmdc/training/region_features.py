"""From pictures to candidates that a network describes, for a batch with gradients or for a whole set without."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.data.pictures import PictureSet
from lvmdc.features.length_norm import LengthNorm
from lvmdc.features.regions import RegionNetwork
from lvmdc.training.augmentation import Augmentation
from lvmdc.training.data import Samples

KEPT = 1 << 30  # bytes of pictures, at the size that the network takes, that stay in memory; the others are read anew
TOGETHER = 4  # pictures that are described at once, where there is no gradient


class RegionFeatures:
    """Samples of pictures with boxes, described by a `RegionNetwork` as it is."""

    def __init__(self, network: RegionNetwork):
        self.network = network
        self._kept: dict[tuple[str, int], Tensor] = {}
        self._sizes: dict[tuple[str, int], tuple[int, int]] = {}
        self._bytes = 0

    def __call__(self, samples: Samples, augmentation: Augmentation | None = None) -> Candidates:
        """The candidates with features, and those of Φ if it has its own, that have derivatives in the network's weights."""
        psi, phi = self.network(*self._views(samples, augmentation))
        return self._candidates(samples, psi, phi)

    @torch.no_grad()
    def describe(self, samples: Samples, calibrate: bool = False, progress: bool = False) -> Candidates:
        """The same of a whole set, without derivatives, on the CPU. With `calibrate`, the set settles the length of the features."""
        network = self.network.eval()
        psi, phi = [], []
        for part in tqdm(self._parts(samples), desc="features", unit="batch", disable=not progress, leave=False):
            one, two = network.pool(*self._views(part))
            psi.append(one.cpu())
            phi += [] if two is None else [two.cpu()]
        found = [self._settled(network.length, torch.cat(psi), calibrate)]
        found += [self._settled(network.theta_length, torch.cat(phi), calibrate)] if network.theta_length is not None else []
        return self._candidates(samples, found[0], found[1] if len(found) > 1 else None)

    @staticmethod
    def _settled(norm: LengthNorm, x: Tensor, calibrate: bool) -> Tensor:
        if calibrate:
            norm.calibrate(x.double().square().sum(dim=1).mean())
        return norm(x)

    def _parts(self, samples: Samples) -> list[Samples]:
        return [samples.subset(index) for index in torch.arange(len(samples)).split(TOGETHER)]

    def _views(self, samples: Samples, augmentation: Augmentation | None = None) -> tuple[list[Tensor], list[Tensor]]:
        items, boxes = samples.items, samples.candidates.boxes
        if not isinstance(items, PictureSet) or boxes is None:
            raise ValueError("a network that learns from pixels needs pictures with boxes, but the data have none; use solver=stochastic")
        views = []
        for i, own in enumerate(boxes.cpu().split(samples.candidates.counts.tolist())):
            pixels, size = self._pixels(items, i)
            places = own.to(torch.float32) * torch.tensor([pixels.shape[2] / size[0], pixels.shape[1] / size[1]] * 2)
            views.append((pixels, places) if augmentation is None else augmentation(pixels, places, self.network.stride))
        return [pixels for pixels, _ in views], [places for _, places in views]

    def _pixels(self, items: PictureSet, i: int) -> tuple[Tensor, tuple[int, int]]:
        """(3, h, w) at the size that the network takes, and the width and height that the picture had."""
        key = (items.names[i], id(items.sources[i]))  # a part of a set has the very same sources
        if key not in self._kept:
            image = items.image(i)
            pixels, _ = self.network.prepare(image, torch.zeros(0, 4))
            if self._bytes + pixels.numel() > KEPT:
                return pixels, image.size
            self._kept[key], self._sizes[key] = pixels, image.size
            self._bytes += pixels.numel()
        return self._kept[key], self._sizes[key]

    @staticmethod
    def _candidates(samples: Samples, psi: Tensor, phi: Tensor | None) -> Candidates:
        c = samples.candidates
        try:
            return Candidates(
                psi.float() if psi.dtype != torch.float64 else psi, c.counts, c.boxes, None if phi is None else phi.to(psi.dtype)
            )
        except ValueError as error:
            raise ValueError(f"the network's {error}; a lower rate of solver.optimizer_backbone may help") from None
