"""A network that learns what windows look like: one pass per image, then its map under each window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lvmdc import distributed
from lvmdc.vision.features.backbone import OFFLINE, load_backbone, weights_digest
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.ring import check_contrast, described
from lvmdc.vision.features.roi import roi_pool, scaled
from lvmdc.vision.features.trunk import divided

LENGTH = 8.0  # about that of HOG, for which C near 1 suits


class LengthNorm(nn.Module):
    """x ↦ 8 x / √E‖x‖²: features whose root mean square length is 8.

    One factor for all windows, because the length of each tells objects from background. In training E‖x‖² is the mean of the batch, of all
    ranks, with its derivative, so that longer features gain nothing; otherwise it is what `calibrate` got, the mean of the training set.

    >>> norm = LengthNorm().eval()
    >>> norm.calibrate(torch.tensor(4.0))
    >>> norm(torch.tensor([[2.0, 0.0]]))
    tensor([[8., 0.]])
    """

    square: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("square", torch.ones(()))

    def calibrate(self, square: Tensor) -> None:
        """Set the mean squared length that was measured."""
        if not bool(square.isfinite()) or not bool(square > 0):
            raise ValueError(
                f"the features of the network must be finite and not all zero, but their mean squared length is {float(square):g}"
            )
        self.square = square.to(self.square)

    def forward(self, x: Tensor) -> Tensor:
        square = distributed.row_mean(x.square().sum(dim=1)) if self.training else self.square.to(x.device)
        return x * (LENGTH / square.clamp(min=torch.finfo(x.dtype).tiny).sqrt())


class RegionNetwork(nn.Module):
    """The features of windows, differentiable in the weights of a network: its last map, pooled under each window (`roi_pool`).

    The numbers are those of `CNN(mode="roi")` up to one factor for all windows, which makes their length 8 on average (`LengthNorm`), so
    that C of (11) means the same before, during and after learning. Batch normalisations stay as they were trained, folded into the
    convolutions, so that an image's features depend on no other image.

    Args:
        backbone: efficientnet_lite0, small_cnn, or a classifier of torchvision.
        weights: "default": trained on ImageNet; the path of a state dict; None: random ones, always the same.
        stride: which map: the last one with a cell per `stride` pixels.
        longer_side: pixels of the longer side of an image, a multiple of `stride`. The other side follows, in multiples of `stride`.
        grid: means over grid × grid parts of a window.
        theta_grid: the same for Φ, if P_θ has separate features; None: it has those of Ψ.
        frozen: the last part of the network that stays as it was trained, such as blocks.10 of efficientnet_lite0 or layer3 of a ResNet;
            its output for an image never changes and can be kept. None: all of the network learns.
        normalise, contrast: windows of equal length, and the contrast with the ring around them, as in `CNN`; of Ψ and of Φ.
        checkpointing: recompute activations in the backward pass: slower, with the memory of one image whatever the batch.

    >>> network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64)
    >>> pixels, boxes = network.prepare(Image.new("RGB", (32, 24)), torch.tensor([[0.0, 0.0, 16.0, 24.0]]))
    >>> pixels.shape, network([pixels], [boxes])[0].shape
    (torch.Size([3, 48, 64]), torch.Size([1, 128]))
    """

    _mean: Tensor
    _std: Tensor

    def __init__(
        self,
        backbone: str = OFFLINE,
        weights: str | Path | None = "default",
        stride: int = 32,
        longer_side: int = 448,
        grid: int = 1,
        theta_grid: int | None = None,
        checkpointing: bool = False,
        frozen: str | None = None,
        normalise: float | None = None,
        contrast: str | None = None,
    ):
        super().__init__()
        if longer_side < stride or longer_side % stride:
            raise ValueError(f"longer_side must be a multiple of stride = {stride} pixels, but it is {longer_side}")
        for name, value in (("grid", grid), ("theta_grid", theta_grid)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, but it is {value}")
        check_contrast(normalise, contrast)
        self.normalise, self.contrast = normalise, contrast
        found = load_backbone(backbone, weights, stride)
        stem, trunk = (nn.Identity(), found.trunk) if frozen is None else divided(found.trunk, frozen)
        # Convolutions are faster on pixels that keep their channels together.
        self.stem = stem.requires_grad_(False).to(memory_format=torch.channels_last)
        self.trunk = trunk.requires_grad_(True).to(memory_format=torch.channels_last)
        self.frozen = frozen
        self.backbone, self.stride, self.longer_side, self.grid, self.theta_grid = backbone, stride, longer_side, grid, theta_grid
        self.channels, self.checkpointing = found.channels, checkpointing
        colours = 255 * torch.tensor([found.mean, found.std])[..., None, None]
        self.register_buffer("_mean", colours[0], persistent=False)
        self.register_buffer("_std", colours[1], persistent=False)
        self.length = LengthNorm()
        self.theta_length = None if theta_grid is None else LengthNorm()

    @property
    def n_features(self) -> int:
        """d: the channels of the map, for each part of the grid; twice with contrast."""
        return self.channels * self.grid**2 * (1 if self.contrast is None else 2)

    def train(self, mode: bool = True) -> RegionNetwork:
        super().train(mode)
        self.stem.eval()
        self.trunk.eval()  # batch normalisation stays as it was trained
        return self

    def prepare(self, image: Image.Image, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels (3, h, w) in 0..255 of the image at the size that the network takes, and the boxes (m, 4) there."""
        resized, places = scaled(image, boxes.cpu(), self.longer_side, self.stride)
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1), places

    @torch.no_grad()
    def begin(self, pixels: Tensor) -> Tensor:
        """The output of the frozen part for the pixels (3, h, w) of an image, which may replace them; the pixels if nothing is frozen."""
        return pixels if self.frozen is None else self.stem(self._normalised(pixels.to(self._mean.device)[None]))[0]

    def forward(self, images: Sequence[Tensor], boxes: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """(T, d), (T, d') or None: features for Ψ, and for Φ if separate, of all windows of the images, one image after the other.

        An image is its pixels, whole numbers, or the output of `begin`; `boxes` are in pixels.
        """
        psi, phi = self.pool(images, boxes)
        return self.length(psi), None if phi is None or self.theta_length is None else self.theta_length(phi)

    def pool(self, images: Sequence[Tensor], boxes: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """`forward` before `LengthNorm`."""
        parts: dict[int, tuple[Tensor, ...]] = {}  # of each image, one for each grid
        for together in self._batches(images):
            pixels = torch.stack([images[i] for i in together]).to(self._mean.device, non_blocking=True)
            places = [boxes[i].to(pixels.device) for i in together]
            if self.checkpointing and torch.is_grad_enabled():
                pooled = checkpoint(self._pooled, pixels, places, use_reentrant=False)
            else:
                pooled = self._pooled(pixels, places)
            counts = [len(place) for place in places]
            parts |= dict(zip(together, zip(*(values.split(counts) for values in pooled), strict=True), strict=True))
        psi, *phi = (torch.cat(values) for values in zip(*(parts[i] for i in range(len(images))), strict=True))
        return psi, phi[0] if phi else None

    def _batches(self, images: Sequence[Tensor]) -> list[list[int]]:
        """The images that go through the network together: those of one size, or, to save memory, each alone."""
        if self.checkpointing:
            return [[i] for i in range(len(images))]
        groups: dict[torch.Size, list[int]] = {}
        for i, image in enumerate(images):
            groups.setdefault(image.shape, []).append(i)
        return list(groups.values())

    def _pooled(self, pixels: Tensor, places: list[Tensor]) -> tuple[Tensor, ...]:
        """The map of images of one size under their windows, for each grid."""
        begun = pixels if pixels.is_floating_point() else self.stem(self._normalised(pixels))
        maps = self.trunk(begun).to(self._mean.dtype)
        boxes, counts = torch.cat(places).to(maps.dtype), [len(place) for place in places]
        height, width = (self.stride * side for side in maps.shape[2:])

        def numbers(grid: int) -> Tensor:
            def pool(own: Tensor) -> Tensor:
                return roi_pool(maps, list(own.split(counts)), grid, self.stride)

            return described(pool, boxes, width, height, self.normalise, self.contrast)

        return tuple(numbers(grid) for grid in (self.grid, self.theta_grid) if grid is not None)

    def _normalised(self, pixels: Tensor) -> Tensor:
        return (pixels.to(self._mean.dtype) - self._mean) / self._std


class Learned(Features):
    """The features of a `RegionNetwork` that was trained with w and θ; without a network, a placeholder until it is learned.

    >>> Learned().describe(Image.new("RGB", (6, 4)), torch.tensor([[0.0, 0.0, 3.0, 2.0]]))
    tensor([[0.]])
    """

    def __init__(self, network: RegionNetwork | None = None):
        self.network = network

    @torch.no_grad()
    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        if self.network is None:
            return torch.zeros(len(boxes), 1)
        self.network.eval()
        pixels, places = self.network.prepare(image, boxes)
        return self.network([pixels], [places])[0].cpu()

    def settings(self) -> dict[str, Any]:
        if self.network is None:
            return {}
        sizes = {name: getattr(self.network, name) for name in ("backbone", "stride", "longer_side", "grid")}
        sizes |= {name: value for name in ("normalise", "contrast") if (value := getattr(self.network, name)) is not None}
        return {"weights": weights_digest(self.network.state_dict())[:16], **sizes}
