"""PictureSet: the one interface that data sets of pictures with one label each have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np  # noqa: F401  for the example below
import torch
from torch import Tensor

from lvmdc.candidates import ArrayLike, as_tensor
from lvmdc.data.sources import Source, Sources, check_length


class PictureSet(Sources):
    """n labelled pictures, opened when they are asked for.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        y: (n,) class indices in 0..K−1.
        boxes: (n, 4) corners x1, y1, x2, y2 of the true object in pixels; None where they are not known.
        names: what each picture is called in messages, caches and results; `picture 0`, … where not given.
        groups: (n,) integers; pictures of one group are near duplicates, which a split must keep on one side.
        objects: for each picture the (k, 4) boxes of everything in it that looks like the object, labelled or not: what a
            detector might report.

    >>> pictures = PictureSet([np.zeros((4, 6), np.uint8)] * 3, classes=["cat", "dog"], y=[0, 1, 1])
    >>> len(pictures), pictures.image(0).size, pictures.subset([2, 0]).y.tolist()
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
        return f"PictureSet({', '.join([f'{len(self)} pictures of {len(self.classes)} classes', *extras])})"

    def subset(self, index: ArrayLike) -> PictureSet:
        """The pictures `index` (integers or a mask), in that order, of the same classes."""
        chosen = as_tensor(index).reshape(-1)
        if chosen.dtype == torch.bool:
            check_length("the mask", len(chosen), len(self))
            chosen = chosen.nonzero().flatten()
        chosen = chosen.long()
        places = chosen.tolist()
        return PictureSet(
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
