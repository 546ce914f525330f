"""Features of windows from a pretrained convolutional network."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from lvmdc.vision.features.backbone import OFFLINE, load_backbone
from lvmdc.vision.features.base import Features, pixel_corners
from lvmdc.vision.features.map_store import MapStore
from lvmdc.vision.features.ring import check_contrast, described
from lvmdc.vision.features.roi import roi_pool, scaled

STEP = 32  # pixels: sides are multiples of it, so that no map has part of a cell
SCALES = {"crop": 0.25, "roi": 0.7}
LENGTH = 8.0  # about that of HOG
BLOCK = 1 << 23  # numbers in memory at a time on the way from a map to the boxes' numbers: 32 MB, and a few such arrays


class CNN(Features):
    """The mean of a network's last map over each window; 1,280 numbers with EfficientNet-Lite0, whose weights come by pip.

    `mode="crop"` runs the network once per window, on its own pixels resized to `size` × `size`. `mode="roi"` runs it once per image,
    scaled to `longer_side`, and pools the map under each window: faster for many windows, which then also see what is around them.

    Args:
        backbone: efficientnet_lite0, or a classifier of torchvision.
        mode: "crop" or "roi".
        size: side in pixels that crops are resized to, a multiple of 32.
        longer_side: pixels of the longer side of an image in mode "roi", a multiple of 32. The other side follows, in multiples of 32.
        stride: which map: the last one with a cell per `stride` pixels. Maps of a smaller stride are finer and know less of classes.
        grid: means over grid × grid parts of the window rather than the whole, with grid² times as many numbers.
        scale: factor on the numbers. None: 1/4 for crops and 0.7 for regions, which give windows of photographs about the length of HOG, 8,
            so that C near 1 suits both. With `normalise` the length of the whole image's; None: 8.
        normalise: None: lengths as they come, which tell objects from background where windows have one size. Where windows have all sizes
            they tell size first: small ones average fewer cells and are longer (in mode "roi" those below 2 % of the image twice as long
            as those above 30 %), so that w·φ is largest for the smallest. A number γ: each window's numbers have the length `scale` aᵞ,
            a being its share of the image's area. γ = 0 makes all windows equally long, so that a part of an object scores as the whole
            does; γ = 1 counts a window like the sum over its cells; 1/4 lies between.
        weights: "default": trained on ImageNet, from pip or downloaded by torchvision; the path of a state dict; None: random ones, always
            the same.
        contrast: "ring": in mode "roi", the numbers of a window are followed by their difference from those of the ring around it (the
            window × 1.8 without the window), each scaled as `normalise` says, so twice as many numbers. They say where an object ends: a
            mean over a part of an object is like the mean over the whole, but its ring is not. None: the window alone.
        maps_dir: in mode "roi", a folder where the maps of images are kept in half precision, so that other windows, other settings of
            this class and priors of the same network need no second pass; about 0.5 MB per image at 512 pixels. None: nothing is kept.
        batch_size: crops that go through the network at once. 16 is fastest on a CPU; a GPU likes more.
        device: where the network runs; default torch's. The features come back to the CPU.

    >>> windows = torch.tensor([[0.0, 0.0, 40.0, 30.0], [10.0, 0.0, 64.0, 48.0]])
    >>> CNN("mobilenet_v3_small", size=64, weights=None).describe(Image.new("RGB", (64, 48), "green"), windows).shape
    torch.Size([2, 576])
    """

    def __init__(
        self,
        backbone: str = OFFLINE,
        mode: str = "crop",
        size: int = 128,
        longer_side: int = 448,
        stride: int = 32,
        grid: int = 1,
        scale: float | None = None,
        weights: str | Path | None = "default",
        batch_size: int = 16,
        device: str | torch.device | None = None,
        normalise: float | None = None,
        contrast: str | None = None,
        maps_dir: str | Path | None = None,
    ):
        if mode not in SCALES:
            raise ValueError(f"mode must be 'crop' or 'roi', but it is {mode!r}")
        for name, side in (("size", size), ("longer_side", longer_side)):
            if side < STEP or side % STEP:
                raise ValueError(f"{name} must be a multiple of {STEP} pixels, but it is {side}")
        if grid < 1 or batch_size < 1:
            raise ValueError(f"grid and batch_size must be at least 1, but they are {grid} and {batch_size}")
        if scale is not None and not scale > 0:
            raise ValueError(f"scale must be positive, but it is {scale}")
        check_contrast(normalise, contrast)
        if mode == "crop" and (contrast is not None or maps_dir is not None):
            raise ValueError("contrast and maps_dir need mode='roi', one map per image, but mode is 'crop'")
        self.contrast = contrast
        self.weights = weights
        self.backbone, self.mode, self.size, self.longer_side, self.grid = backbone, mode, size, longer_side, grid
        usual = SCALES[mode] if normalise is None else LENGTH
        self.scale, self.normalise, self.batch_size = usual if scale is None else scale, normalise, batch_size
        self.device = torch.get_default_device() if device is None else torch.device(device)
        self.network = load_backbone(backbone, weights, stride)
        # Convolutions are faster on pixels that keep their channels together.
        self.trunk = self.network.trunk.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        colours = torch.tensor([self.network.mean, self.network.std], device=self.device)[..., None, None]
        self._mean, self._std = 255 * colours
        self._maps = MapStore(maps_dir, {name: self.settings()[name] for name in ("backbone", "weights", "stride")} | {"side": longer_side})

    @property
    def n_features(self) -> int:
        """d: the channels of the map, for each part of the grid; twice with contrast.

        >>> CNN("mobilenet_v3_small", grid=2, weights=None).n_features
        2304
        """
        return self.network.channels * self.grid**2 * (1 if self.contrast is None else 2)

    @torch.inference_mode()
    def map(self, image: Image.Image) -> Tensor:
        """(channels, h, w): the last map of an image, scaled to `longer_side`, on the CPU; from `maps_dir` if it is there.

        >>> CNN("mobilenet_v3_small", mode="roi", longer_side=64, weights=None).map(Image.new("RGB", (80, 40))).shape
        torch.Size([576, 1, 2])
        """
        return self._maps.get(image, lambda: self._map([scaled(image, torch.zeros(0, 4), self.longer_side, STEP)[0]])[0])

    @torch.inference_mode()
    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        boxes = boxes.to(self.device)
        corners = pixel_corners(image, boxes)
        # A grid of means is `grid` times as long as one mean.
        scale = self.scale if self.normalise is not None else self.scale / self.grid
        if self.mode == "crop":
            crops = self._of_crops(image.convert("RGB"), corners)
            return (scale * described(lambda _: crops, boxes, *image.size, self.normalise, None)).cpu()
        found = self.map(image).to(self.device)
        # What is computed on the way from the map to the numbers of a box is as large as these, or as the map.
        step = max(1, BLOCK // max(self.n_features, self.grid**2 * found[0].numel()))
        parts = [
            scale * described(lambda own: self._of_regions(image, found, own), some, *image.size, self.normalise, self.contrast).cpu()
            for some in boxes.split(step)
        ]
        return torch.cat(parts)

    def settings(self) -> dict[str, Any]:
        """Without the device and the size of a batch, which change the numbers by rounding alone."""
        names = ("backbone", "mode", "size" if self.mode == "crop" else "longer_side", "grid", "scale")
        known = {name: getattr(self, name) for name in names} | {"weights": self.network.digest[:16], "stride": self.network.stride}
        return known | {name: getattr(self, name) for name in ("normalise", "contrast") if getattr(self, name) is not None}

    def _of_crops(self, image: Image.Image, corners: list[tuple[int, int, int, int]]) -> Tensor:
        means = []
        for start in range(0, len(corners), self.batch_size):
            # Crop first: resizing by a box of the image would include pixels next to it.
            crops = [
                image.crop(corner).resize((self.size, self.size), Image.Resampling.BILINEAR)
                for corner in corners[start:][: self.batch_size]
            ]
            means.append(adaptive_avg_pool2d(self._map(crops), self.grid).flatten(1))
        return torch.cat(means)

    def _of_regions(self, image: Image.Image, found: Tensor, boxes: Tensor) -> Tensor:
        """(m, n): means of the image's map over boxes in pixels of the image."""
        height, width = (self.network.stride * side for side in found.shape[1:])
        places = boxes.to(torch.float32) * torch.tensor([width / image.width, height / image.height] * 2, device=self.device)
        return roi_pool(found[None], [places], self.grid, self.network.stride)

    def _map(self, images: list[Image.Image]) -> Tensor:
        """(n, channels, height / stride, width / stride) of images of one size."""
        pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images])).to(self.device)
        return self.trunk((pixels.permute(0, 3, 1, 2).to(torch.float32) - self._mean) / self._std)
