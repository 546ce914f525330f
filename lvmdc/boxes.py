"""Boxes: labelled boxes of many images, and which of them are not all the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.ops import nms

from lvmdc.arrays import ArrayLike, as_tensor, checked_boxes
from lvmdc.segments import segment_ids

# LabelledBoxes: the boxes of several classes in many images, true ones or predicted ones.


class LabelledBoxes:
    """m boxes in all, each with its image and its class; an image may have none.

    Args:
        image: (m,) the image that each box is in, from 0.
        label: (m,) class indices.
        box: (m, 4) corners x1, y1, x2, y2.
        score: (m,) how sure a prediction is, higher is surer; None for true boxes.
        difficult: (m,) true boxes that count neither for nor against a prediction, as PASCAL VOC marks them; none where not given.

    >>> truth = LabelledBoxes([0, 0, 2], [1, 0, 1], [[0, 0, 2, 2], [1, 1, 3, 3], [0, 0, 4, 4]])
    >>> truth, truth.of_label(1).image.tolist(), truth.labels(n_images=3, n_classes=2).tolist()
    (LabelledBoxes(3 boxes), [0, 2], [[1, 1], [-1, -1], [-1, 1]])
    """

    def __init__(
        self, image: ArrayLike, label: ArrayLike, box: ArrayLike, score: ArrayLike | None = None, difficult: ArrayLike | None = None
    ):
        box = as_tensor(box)
        self.box = checked_boxes(box, len(box)) if box.numel() else torch.zeros(0, 4, device=box.device)
        self.image, self.label = self._indices("image", image), self._indices("label", label)
        self.score = None if score is None else self._column("score", score).to(torch.promote_types(as_tensor(score).dtype, torch.float32))
        if self.score is not None and not bool(self.score.isfinite().all()):
            raise ValueError("score must be finite, but it holds NaN or infinity")
        self.difficult = (
            torch.zeros_like(self.label, dtype=torch.bool) if difficult is None else self._column("difficult", difficult).bool()
        )

    def __len__(self) -> int:
        return len(self.box)

    def __repr__(self) -> str:
        parts = [f"{len(self)} boxes"]
        parts += [] if self.score is None else ["scores"]
        parts += [f"{int(self.difficult.sum())} difficult"] if bool(self.difficult.any()) else []
        return f"LabelledBoxes({', '.join(parts)})"

    def __getitem__(self, index: Tensor) -> LabelledBoxes:
        """Some of the boxes, by integers or a mask, in that order."""
        score = None if self.score is None else self.score[index]
        return LabelledBoxes(self.image[index], self.label[index], self.box[index], score, self.difficult[index])

    def of_label(self, k: int) -> LabelledBoxes:
        """The boxes of class k."""
        return self[self.label == k]

    def of_image(self, i: int) -> LabelledBoxes:
        """The boxes in image i."""
        return self[self.image == i]

    def subset(self, index: ArrayLike) -> LabelledBoxes:
        """The boxes in the images `index` (integers), which are then counted 0, 1, … in that order.

        >>> LabelledBoxes([0, 2], [0, 1], [[0, 0, 1, 1], [0, 0, 2, 2]]).subset([2, 1]).image
        tensor([0])
        """
        chosen = as_tensor(index).long().to(self.image.device)
        order = self.image.argsort(stable=True)
        ordered = self.image[order]
        first = torch.searchsorted(ordered, chosen)
        counts = torch.searchsorted(ordered, chosen, right=True) - first  # boxes in each chosen image
        within = torch.arange(int(counts.sum()), device=chosen.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        part = self[order[first.repeat_interleave(counts) + within]]
        part.image = segment_ids(counts)
        return part

    def labels(self, n_images: int, n_classes: int) -> Tensor:
        """(n, K) the labels of each image, as in VOC's lists: 1 the class is there, −1 it is not, 0 only difficult boxes of it are.

        >>> LabelledBoxes([0, 0], [1, 0], [[0, 0, 2, 2]] * 2, difficult=[True, False]).labels(2, 2).tolist()
        [[1, 0], [-1, -1]]
        """
        table = torch.full((n_images, n_classes), -1, device=self.box.device)
        for level, which in ((0, self.difficult), (1, ~self.difficult)):
            table[self.image[which], self.label[which]] = level
        return table

    def to(self, device: torch.device | str) -> LabelledBoxes:
        """The same on another device."""
        score = None if self.score is None else self.score.to(device)
        return LabelledBoxes(self.image.to(device), self.label.to(device), self.box.to(device), score, self.difficult.to(device))

    @staticmethod
    def concat(parts: Sequence[LabelledBoxes]) -> LabelledBoxes:
        """The boxes of several sets of the same images.

        >>> one = LabelledBoxes([0], [1], [[0, 0, 2, 2]])
        >>> LabelledBoxes.concat([one, one])
        LabelledBoxes(2 boxes)
        """
        if not parts:
            raise ValueError("concat needs at least one set, but got none")
        if len({part.score is None for part in parts}) > 1:
            raise ValueError("concat needs scores in all of the sets or in none of them")
        image, label, box = (torch.cat([getattr(part, name) for part in parts]) for name in ("image", "label", "box"))
        score = None if parts[0].score is None else torch.cat([part.score for part in parts if part.score is not None])
        return LabelledBoxes(image, label, box, score, torch.cat([part.difficult for part in parts]))

    def _column(self, name: str, values: ArrayLike) -> Tensor:
        column = as_tensor(values).to(self.box.device)
        if column.shape != (len(self.box),):
            raise ValueError(f"{name} must have shape ({len(self.box)},), one a box, but it has shape {tuple(column.shape)}")
        return column

    def _indices(self, name: str, values: ArrayLike) -> Tensor:
        column = self._column(name, values)
        if len(column) and (column.is_floating_point() or column.dtype == torch.bool):
            raise ValueError(f"{name} must hold integers, but it is {column.dtype}")
        if bool((column < 0).any()):
            raise ValueError(f"{name} must not be negative, but {name}[{int((column < 0).nonzero()[0])}] is {int(column[column < 0][0])}")
        return column.long()


# Non-maximum suppression of predicted boxes, within an image and a class.


def suppressed(found: LabelledBoxes, overlap: float = 0.3, max_boxes: int | None = None) -> LabelledBoxes:
    """The predicted boxes without those that overlap a better one of the same image and class by more than `overlap`; best first in each.

    Args:
        found: boxes with scores.
        overlap: intersection over union.
        max_boxes: of an image and a class, at most; all where not given.

    >>> found = LabelledBoxes([0, 0, 0], [0, 0, 1], [[0, 0, 4, 4], [0, 0, 4, 3], [0, 0, 4, 4]], score=[0.1, 0.9, 0.5])
    >>> suppressed(found).score.tolist()
    [0.9, 0.5]
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap must lie in [0, 1], but it is {overlap}")
    if len(found) == 0:
        return found
    # torchvision's own batched_nms looks through all boxes once for every group, which is slow for thousands of images.
    group = found.image * (int(found.label.max()) + 1) + found.label
    order = group.argsort(stable=True)
    sizes = group.unique(return_counts=True)[1].tolist()
    kept = [rows[nms(found.box[rows], found.score[rows].to(found.box.dtype), overlap)[:max_boxes]] for rows in order.split(sizes)]
    return found[torch.cat(kept)]


# Boxes that are not all the same box: non-maximum suppression in a given order.


def distinct(boxes: Tensor, overlap: float, count: int) -> Tensor:
    """Indices of the first `count` of the (m, 4) boxes, in order, that no earlier one of them overlaps by more than `overlap`.

    >>> distinct(torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [2.0, 2.0, 4.0, 4.0]]), overlap=0.5, count=20)
    tensor([0, 2])
    """
    falling = -torch.arange(len(boxes), dtype=boxes.dtype)  # earlier boxes win
    return nms(boxes, falling, overlap)[:count]
