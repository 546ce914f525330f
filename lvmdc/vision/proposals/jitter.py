"""Boxes as a detector might report them: around each object, and some of background."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.proposals.base import Proposals, digest


class JitteredBoxes(Proposals):
    """A simulated detector: each known object `per_object` times with jitter; random boxes fill up to `count`.

    The labelled object and bystanders are treated the same, and the boxes come in random order, so that only the image distinguishes them.
    The boxes depend on the image's name and `seed`.

    Args:
        objects: image name → (k, 4) boxes of the objects in it.
        count: boxes per image; objects beyond count / per_object are still all reported.
        per_object: boxes of each object.
        jitter: standard deviation of a box's corners, as a share of the object's width and height.
        height: least and greatest height of a random box, as shares of the image's.
        aspect: least and greatest width of a random box, as shares of its height; upright by default.

    >>> proposals = JitteredBoxes({"a": [[10.0, 5.0, 30.0, 55.0]]}, count=20)
    >>> proposals.boxes(Image.new("RGB", (64, 64)), "a").shape
    torch.Size([20, 4])
    """

    def __init__(
        self,
        objects: Mapping[str, ArrayLike],
        count: int = 20,
        per_object: int = 3,
        jitter: float = 0.06,
        height: tuple[float, float] = (0.35, 0.65),
        aspect: tuple[float, float] = (0.4, 0.9),
        seed: int = 0,
    ):
        if count < 1 or per_object < 1:
            raise ValueError(f"count and per_object must be at least 1, but they are {count} and {per_object}")
        if not 0 <= jitter < 0.25:
            raise ValueError(f"jitter must lie in 0..0.25, beyond which a box misses its object, but it is {jitter}")
        if not 0 < height[0] <= height[1] <= 1 or not 0 < aspect[0] <= aspect[1]:
            raise ValueError(f"height and aspect must be (least, greatest) and positive, but they are {height} and {aspect}")
        self.objects = {name: as_tensor(boxes).to(torch.float32).reshape(-1, 4) for name, boxes in objects.items()}
        self.count, self.per_object, self.jitter, self.seed = count, per_object, jitter, seed
        self.height, self.aspect = (height[0], height[1]), (aspect[0], aspect[1])

    @classmethod
    def around(cls, images: ImageSet, **settings: Any) -> JitteredBoxes:
        """The proposals of an image set with known objects, such as `stick_actions`.

        >>> from lvmdc.vision.datasets import stick_actions
        >>> images = stick_actions(per_class=1)
        >>> JitteredBoxes.around(images, count=12).boxes(images.image(0), images.names[0]).shape
        torch.Size([12, 4])
        """
        if images.objects is None:
            raise ValueError("images must have objects, but images.objects is None")
        return cls(dict(zip(images.names, images.objects, strict=True)), **settings)

    def boxes(self, image: Image.Image, name: str) -> Tensor:
        if name not in self.objects:
            raise KeyError(f"objects must have an entry for every image, but it has none for {name!r}")
        words = np.frombuffer(hashlib.sha256(name.encode()).digest(), np.uint32)
        rng = np.random.default_rng([self.seed, *words.tolist()])
        objects = self.objects[name].numpy()
        reports = np.repeat(objects, self.per_object, axis=0)  # (k · per_object, 4)
        side = np.tile(reports[:, 2:] - reports[:, :2], 2)
        reports = reports + side * (self.jitter * rng.standard_normal(reports.shape)).clip(-0.2, 0.2)
        rest = max(self.count - len(reports), 0 if len(reports) else 1)
        boxes = np.concatenate([reports, self._random(rng, rest, image)])
        boxes = np.minimum(np.maximum(boxes, 0), np.tile([image.width, image.height], 2))
        return torch.from_numpy(rng.permutation(boxes).astype(np.float32))

    def _random(self, rng: np.random.Generator, n: int, image: Image.Image) -> np.ndarray:
        tall = image.height * rng.uniform(*self.height, n)
        wide = np.minimum(tall * rng.uniform(*self.aspect, n), image.width)
        left, top = rng.uniform(0, 1, n) * (image.width - wide), rng.uniform(0, 1, n) * (image.height - tall)
        return np.stack([left, top, left + wide, top + tall], axis=1)

    def settings(self) -> dict[str, Any]:
        names = ("count", "per_object", "jitter", "height", "aspect", "seed")
        return {"objects": digest(self.objects)} | {name: getattr(self, name) for name in names}
