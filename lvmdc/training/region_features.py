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
from lvmdc.training.kept_pictures import KeptPictures

TOGETHER = 4  # pictures that are described at once, where there is no gradient


class RegionFeatures:
    """Samples of pictures with boxes, described by a `RegionNetwork` as it is."""

    def __init__(self, network: RegionNetwork):
        self.network, self.kept = network, KeptPictures(network)

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
            if augmentation is None or (self.network.frozen is not None and augmentation.only_mirrors):
                mirrored = augmentation is not None and bool(torch.rand(()) < augmentation.flip)
                view = self.kept.begun(items, i, mirrored)
                views.append((view.picture, view.places(own)))
            else:
                view = self.kept.pixels(items, i)
                pixels, places = augmentation(view.picture, view.places(own), self.network.stride)
                views.append((self.network.begin(pixels), places))
        return [picture for picture, _ in views], [places for _, places in views]

    @staticmethod
    def _candidates(samples: Samples, psi: Tensor, phi: Tensor | None) -> Candidates:
        c = samples.candidates
        try:
            features = psi.float() if psi.dtype != torch.float64 else psi
            return Candidates(features, c.counts, c.boxes, None if phi is None else phi.to(psi.dtype), c.prior)
        except ValueError as error:
            raise ValueError(f"the network's {error}; a lower rate of solver.optimizer_backbone may help") from None
