"""ImageSet: images with one label each, in files or in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.vision.datasets.reading import read_image

# Sources: images in files or arrays, opened when they are asked for.

Source = str | Path | np.ndarray


class Sources:
    """n images and the names of the classes that they may show; what each of them shows is for a subclass to say.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        names: what each image is called in messages, caches and results; `image 0`, … where not given.

    >>> Sources([np.zeros((4, 6), np.uint8)], ["cat"]).image(0).size
    (6, 4)
    """

    def __init__(self, sources: Sequence[Source], classes: Sequence[str], names: Sequence[str] | None = None):
        self.sources, self.classes = list(sources), list(classes)
        n = len(self.sources)
        if n == 0:
            raise ValueError("sources must hold at least one image, but it is empty")
        for i, source in enumerate(self.sources):
            if isinstance(source, np.ndarray) and (source.dtype != np.uint8 or (source.ndim != 2 and source.shape[2:] != (3,))):
                raise ValueError(
                    f"sources[{i}] must be uint8 of shape (height, width) or (height, width, 3), but it is {source.dtype} of {source.shape}"
                )
        self.names = [f"image {i}" for i in range(n)] if names is None else list(names)
        check_length("names", len(self.names), n)

    def __len__(self) -> int:
        return len(self.sources)

    def image(self, i: int) -> Image.Image:
        """Image i in RGB, upright. A file that is missing, damaged or no image is refused by name."""
        source = self.sources[i]
        return Image.fromarray(source).convert("RGB") if isinstance(source, np.ndarray) else read_image(source)

    def digest(self, i: int) -> str:
        """The SHA-256 of what image i is made from, the file's bytes or the array: the same digest, the same pixels.

        >>> Sources([np.zeros((4, 6), np.uint8)], ["cat"]).digest(0)[:8]
        '972fc41c'
        """
        source = self.sources[i]
        if isinstance(source, np.ndarray):
            head = f"{source.dtype.str} {source.shape} ".encode()
            return hashlib.sha256(head + np.ascontiguousarray(source).tobytes()).hexdigest()
        with Path(source).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def check_length(name: str, length: int, n: int) -> None:
    """Refuse a list that has not one entry for each of n images.

    >>> check_length("names", 2, 3)
    Traceback (most recent call last):
    ValueError: names must have one entry for each of the 3 images, but it has 2
    """
    if length != n:
        raise ValueError(f"{name} must have one entry for each of the {n} images, but it has {length}")


# ImageSet: the one interface that data sets of images with one label each have.


class ImageSet(Sources):
    """n labelled images, opened when they are asked for.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        y: (n,) class indices in 0..K−1.
        boxes: (n, 4) corners x1, y1, x2, y2 of the true object in pixels; None where they are not known.
        names: what each image is called in messages, caches and results; `image 0`, … where not given.
        groups: (n,) integers; images of one group are near duplicates, which a split must keep on one side.
        objects: for each image the (k, 4) boxes of everything in it that looks like the object, labelled or not: what a
            detector might report.

    >>> images = ImageSet([np.zeros((4, 6), np.uint8)] * 3, classes=["cat", "dog"], y=[0, 1, 1])
    >>> len(images), images.image(0).size, images.subset([2, 0]).y.tolist()
    (3, (6, 4), [1, 0])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        classes: Sequence[str],
        y: ArrayLike,
        boxes: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        objects: Sequence[ArrayLike] | None = None,
    ):
        super().__init__(sources, classes, names)
        n = len(self)
        self.y = _indices("y", y, n)
        outside = ((self.y < 0) | (self.y >= len(self.classes))).nonzero().flatten()
        if len(outside):
            i = int(outside[0])
            raise ValueError(f"y[{i}] must lie in 0..{len(self.classes) - 1}, the {len(self.classes)} classes, but it is {int(self.y[i])}")
        self.boxes = None if boxes is None else _checked_boxes("boxes", boxes, n)
        self.groups = None if groups is None else _indices("groups", groups, n)
        self.objects: list[Tensor] | None = None
        if objects is not None:
            check_length("objects", len(objects), n)
            self.objects = [_checked_boxes(f"objects[{i}]", o, None) for i, o in enumerate(objects)]

    def __repr__(self) -> str:
        extras = [name for name in ("boxes", "groups", "objects") if getattr(self, name) is not None]
        return f"ImageSet({', '.join([f'{len(self)} images of {len(self.classes)} classes', *extras])})"

    def subset(self, index: ArrayLike) -> ImageSet:
        """The images `index` (integers or a mask), in that order, of the same classes."""
        chosen = as_tensor(index).reshape(-1)
        if chosen.dtype == torch.bool:
            check_length("the mask", len(chosen), len(self))
            chosen = chosen.nonzero().flatten()
        chosen = chosen.long()
        places = chosen.tolist()
        return ImageSet(
            [self.sources[i] for i in places],
            self.classes,
            self.y[chosen],
            None if self.boxes is None else self.boxes[chosen],
            [self.names[i] for i in places],
            None if self.groups is None else self.groups[chosen],
            None if self.objects is None else [self.objects[i] for i in places],
        )


def _indices(name: str, values: ArrayLike, n: int) -> Tensor:
    tensor = as_tensor(values)
    if tensor.shape != (n,) or tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must be integers of shape ({n},), but it is {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor.long()


def _checked_boxes(name: str, values: ArrayLike, n: int | None) -> Tensor:
    boxes = as_tensor(values).to(torch.float32)
    if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) != (len(boxes) if n is None else n):
        raise ValueError(f"{name} must have shape ({'k' if n is None else n}, 4), but it has shape {tuple(boxes.shape)}")
    proper = boxes.isfinite().all(dim=1) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    if not bool(proper.all()):
        i = int((~proper).nonzero()[0])
        raise ValueError(f"{name} must be finite with x2 > x1 and y2 > y1, but {name}[{i}] is {boxes[i].tolist()}")
    return boxes
