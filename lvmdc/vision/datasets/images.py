"""ImageSet: images in files or in memory, labelled with one class each or with all classes that they show; and how files are read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.boxes import LabelledBoxes
from lvmdc.samples import split_by_class

Source = str | Path | np.ndarray


class ImageSet:
    """n images, opened when they are needed. Boxes are known to measure by, not to learn from.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        labels: (n,) class indices in 0..K−1 where each image has one class, or (n, K): 1 where an image shows a class, −1 where it does
            not, 0 where that is unknown. Where not given, those of `boxes`; unknown without boxes.
        boxes: the true boxes, or, where each image has one class, also (n, 4) corners x1, y1, x2, y2 of its one object in pixels, a row of
            NaN where they are unknown.
        names: what each image is called in messages, caches and results; `image 0`, … where not given.
        groups: (n,) integers; images of one group are near duplicates, which a split must keep on one side.
        objects: for each image the (k, 4) boxes of everything in it that looks like the object, labelled or not: what a
            detector might report.
        division: (n,) the published part of each image, 0 for training and 1 for testing; None where there is none.

    >>> images = ImageSet([np.zeros((4, 6), np.uint8)] * 3, classes=["cat", "dog"], labels=[0, 1, 1])
    >>> len(images), images.image(0).size, images.subset([2, 0]).y.tolist()
    (3, (6, 4), [1, 0])
    >>> several = ImageSet([np.zeros((4, 6), np.uint8)], ["cat", "dog"], boxes=LabelledBoxes([0], [1], [[0, 0, 2, 2]]))
    >>> several, several.labels.tolist(), several.shown(0)
    (ImageSet(1 images of 2 classes, 1 boxes), [[-1, 1]], ['dog'])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        classes: Sequence[str],
        labels: ArrayLike | None = None,
        boxes: LabelledBoxes | ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        objects: Sequence[ArrayLike] | None = None,
        division: ArrayLike | None = None,
    ):
        self.sources, self.classes = list(sources), list(classes)
        n, n_classes = len(self.sources), len(self.classes)
        if n == 0:
            raise ValueError("sources must hold at least one image, but it is empty")
        for i, source in enumerate(self.sources):
            if isinstance(source, np.ndarray) and (source.dtype != np.uint8 or (source.ndim != 2 and source.shape[2:] != (3,))):
                raise ValueError(
                    f"sources[{i}] must be uint8 of shape (height, width) or (height, width, 3), but it is {source.dtype} of {source.shape}"
                )
        self.names = [f"image {i}" for i in range(n)] if names is None else list(names)
        check_length("names", len(self.names), n)
        if labels is None:
            given = isinstance(boxes, LabelledBoxes)
            labels = boxes.labels(n, n_classes) if given else torch.zeros(n, n_classes, dtype=torch.long)  # type: ignore[union-attr]
        self.labels = _checked_labels(as_tensor(labels), n, n_classes)
        self._box: Tensor | None = None
        self.truth: LabelledBoxes | None = None
        if isinstance(boxes, LabelledBoxes):
            if len(boxes) and (int(boxes.image.max()) >= n or int(boxes.label.max()) >= n_classes):
                raise ValueError(f"boxes must be of {n} images and {n_classes} classes, but one is of an image or class beyond them")
            self.truth = boxes
        elif boxes is not None:
            self._box = _checked_boxes("boxes", boxes, n, unknown=True)
            known = self.boxed.nonzero().flatten()
            self.truth = LabelledBoxes(known, self.y[known], self._box[known])
        self.groups = None if groups is None else _indices("groups", groups, n)
        self.objects: list[Tensor] | None = None
        if objects is not None:
            check_length("objects", len(objects), n)
            self.objects = [_checked_boxes(f"objects[{i}]", o, None) for i, o in enumerate(objects)]
        self.division = None if division is None else as_tensor(division).long()
        if self.division is not None:
            check_length("division", len(self.division), n)

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        boxes = "boxes" if self.boxes is not None else None if self.truth is None else f"{len(self.truth)} boxes"
        extras = [name for name in ("groups", "objects", "division") if getattr(self, name) is not None]
        return f"ImageSet({', '.join([f'{len(self)} images of {len(self.classes)} classes', *([boxes] if boxes else []), *extras])})"

    @property
    def one_class(self) -> bool:
        """Whether each image has exactly one class, which is known."""
        return self.labels.dim() == 1

    @property
    def y(self) -> Tensor:
        """(n,) the class of each image; refused where images have several."""
        if not self.one_class:
            raise ValueError("these images have several labels each, so that none is the class of an image")
        return self.labels

    @property
    def table(self) -> Tensor:
        """(n, K) the labels as a table, also where each image has one class."""
        if not self.one_class:
            return self.labels
        return torch.full((len(self), len(self.classes)), -1).scatter(1, self.labels[:, None], 1)

    @property
    def boxes(self) -> Tensor | None:
        """(n, 4) the true box of each image's one object; None where that of any image is unknown, or where images may show several."""
        return self._box if bool(self.boxed.all()) else None

    @property
    def boxed(self) -> Tensor:
        """(n,) whether the true boxes of each image are known.

        >>> images = ImageSet([np.zeros((4, 6), np.uint8)] * 2, ["cat"], [0, 0], boxes=[[0, 0, 2, 2], [np.nan] * 4])
        >>> images.boxed.tolist(), images.boxes, images.truth
        ([True, False], None, LabelledBoxes(1 boxes))
        """
        return torch.full((len(self),), self.truth is not None) if self._box is None else self._box.isfinite().all(dim=1)

    def shown(self, i: int) -> list[str]:
        """The names of the classes that image i shows."""
        return [self.classes[k] for k in (self.table[i] == 1).nonzero().flatten().tolist()]

    def image(self, i: int) -> Image.Image:
        """Image i in RGB, upright. A file that is missing, damaged or no image is refused by name."""
        source = self.sources[i]
        return Image.fromarray(source).convert("RGB") if isinstance(source, np.ndarray) else read_image(source)

    def size(self, i: int) -> tuple[int, int]:
        """Width and height of image i, upright, from the header of the file alone.

        >>> ImageSet([np.zeros((4, 6), np.uint8)], ["cat"]).size(0)
        (6, 4)
        """
        source = self.sources[i]
        return (source.shape[1], source.shape[0]) if isinstance(source, np.ndarray) else image_size(source)

    def digest(self, i: int) -> str:
        """The SHA-256 of what image i is made from, the file's bytes or the array: the same digest, the same pixels.

        >>> ImageSet([np.zeros((4, 6), np.uint8)], ["cat"]).digest(0)[:8]
        '972fc41c'
        """
        source = self.sources[i]
        if isinstance(source, np.ndarray):
            head = f"{source.dtype.str} {source.shape} ".encode()
            return hashlib.sha256(head + np.ascontiguousarray(source).tobytes()).hexdigest()
        with Path(source).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def subset(self, index: ArrayLike) -> ImageSet:
        """The images `index` (integers or a mask), in that order, of the same classes."""
        chosen = as_tensor(index).reshape(-1).cpu()
        if chosen.dtype == torch.bool:
            check_length("the mask", len(chosen), len(self))
            chosen = chosen.nonzero().flatten()
        chosen = chosen.long()
        rows = chosen.tolist()
        boxes = None if self.truth is None else self.truth.subset(chosen) if self._box is None else self._box[chosen]
        if self._box is not None and not bool(self.boxed[chosen].any()):
            boxes = None
        return ImageSet(
            [self.sources[i] for i in rows],
            self.classes,
            self.labels[chosen],
            boxes,
            [self.names[i] for i in rows],
            None if self.groups is None else self.groups[chosen],
            None if self.objects is None else [self.objects[i] for i in rows],
            None if self.division is None else self.division[chosen],
        )

    def split(self, fraction: float = 0.6, fold: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Indices of a training and a test part, both sorted: the published ones, or else `fraction` of the images trains, by
        `split_by_class` where each image has one class, and at random where not. Each `fold` is an independent division.

        A class that one of the parts does not show is refused.

        >>> images = ImageSet([np.zeros((4, 6), np.uint8)] * 5, ["cat"], labels=[[1]] * 5)
        >>> [len(part) for part in images.split()]
        [3, 2]
        """
        if self.division is not None:
            train, test = ((self.division == part).nonzero().flatten() for part in (0, 1))
        elif self.one_class:
            return split_by_class(self.labels, fraction, fold, seed, self.groups)
        else:
            train, test = split_at_random(len(self), fraction, fold, seed)
        for part, index in (("training", train), ("test", test)):
            lacking = (~(self.table[index] == 1).any(dim=0)).nonzero().flatten()
            if len(lacking):
                raise ValueError(f"the {part} part has no image that shows {self.classes[int(lacking[0])]!r}")
        return train, test


def split_at_random(n: int, fraction: float = 0.6, fold: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Indices of two parts of n images, both sorted; `fraction` of them are in the first.

    >>> [len(part) for part in split_at_random(5)]
    [3, 2]
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must lie between 0 and 1, but it is {fraction}")
    order = torch.from_numpy(np.random.default_rng([seed, fold]).permutation(n))
    first = round(fraction * n)
    return order[:first].sort().values, order[first:].sort().values


def check_length(name: str, length: int, n: int) -> None:
    """Refuse a list that has not one entry for each of n images.

    >>> check_length("names", 2, 3)
    Traceback (most recent call last):
    ValueError: names must have one entry for each of the 3 images, but it has 2
    """
    if length != n:
        raise ValueError(f"{name} must have one entry for each of the {n} images, but it has {length}")


def _checked_labels(labels: Tensor, n: int, n_classes: int) -> Tensor:
    if labels.dim() != 2:
        found = _indices("labels", labels, n)
        outside = ((found < 0) | (found >= n_classes)).nonzero().flatten()
        if len(outside):
            i = int(outside[0])
            raise ValueError(f"labels[{i}] must lie in 0..{n_classes - 1}, the {n_classes} classes, but it is {int(found[i])}")
        return found
    if labels.shape != (n, n_classes):
        raise ValueError(f"labels must have shape ({n}, {n_classes}), images × classes, but it has shape {tuple(labels.shape)}")
    if not bool(((labels == 1) | (labels == 0) | (labels == -1)).all()):
        raise ValueError("labels must hold 1, 0 and −1 alone: the class is there, unknown, not there")
    return labels.long()


def _indices(name: str, values: ArrayLike, n: int) -> Tensor:
    tensor = as_tensor(values)
    if tensor.shape != (n,) or tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must be integers of shape ({n},), but it is {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor.long()


def _checked_boxes(name: str, values: ArrayLike, n: int | None, unknown: bool = False) -> Tensor:
    boxes = as_tensor(values).to(torch.float32)
    if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) != (len(boxes) if n is None else n):
        raise ValueError(f"{name} must have shape ({'k' if n is None else n}, 4), but it has shape {tuple(boxes.shape)}")
    proper = boxes.isfinite().all(dim=1) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    if unknown and bool(proper.any()):
        proper |= boxes.isnan().all(dim=1)
    if not bool(proper.all()):
        i = int((~proper).nonzero()[0])
        raise ValueError(f"{name} must be finite with x2 > x1 and y2 > y1, but {name}[{i}] is {boxes[i].tolist()}")
    return boxes


# Formats that Pillow may read, whatever the file name: pixels only. Others start programs, as EPS does.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS = 89_478_485  # above which Pillow warns of a decompression bomb; a quarter of a gigabyte in RGB
_ORIENTATION = 0x0112  # the EXIF tag; its values 5 to 8 rotate the image by a quarter turn


def to_rgb(image: Image.Image) -> Image.Image:
    """An image of any mode in RGB: 16 bits are scaled to 8, and transparency becomes white, as in a viewer.

    >>> to_rgb(Image.new("I;16", (1, 1), 65535)).getpixel((0, 0))
    (255, 255, 255)
    """
    if image.mode.startswith("I"):
        # Pillow's conversion of 16-bit images clips at 255, which makes them white.
        levels = np.asarray(image).astype(np.int64)
        if levels.size and (levels.min() < 0 or levels.max() > 65535):
            raise ValueError(f"its grey values must lie in 0..65535, but they span {levels.min()}..{levels.max()}")
        return Image.fromarray(np.round(levels / 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("it holds floating point values, whose range is unknown; save it with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def read_image(path: str | Path) -> Image.Image:
    """The image in RGB, upright according to its EXIF orientation. A file that cannot be read completely is refused by name."""
    with _opened(path) as image:
        image.load()
        return to_rgb(ImageOps.exif_transpose(image))


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height of the upright image, from the file header alone."""
    with _opened(path) as image:
        width, height = image.size
        return (height, width) if image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8) else (width, height)


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """An image of which only the header is read; one that is too large is refused before it takes memory, all errors name the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path, formats=FORMATS)
        with image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise ValueError(f"it has {width} by {height} pixels, and more than {MOST_PIXELS} in all are not read")
            yield image
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a damaged file
        # Pillow's message for a file that is no image repeats the path.
        unknown = isinstance(error, Image.UnidentifiedImageError)
        reason = "it is not an image" if unknown else (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as an image: {reason}") from error
