"""Boxes: areas, overlaps, checks, labelled boxes of many images, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor, check_finite
from lvmdc.segments import segment_ids

RING = 1.8  # sides of the outer box, in sides of the box


def box_area(boxes: Tensor) -> Tensor:
    """Areas of boxes, (…, 4) → (…).

    >>> box_area(torch.tensor([0.0, 0.0, 2.0, 3.0]))
    tensor(6.)
    """
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4), x1, y1, x2, y2, that broadcast; torchvision's compares all pairs only.

    >>> box_iou(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([1.0, 0.0, 3.0, 2.0]))
    tensor(0.3333)
    """
    width = torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])
    height = torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])
    common = width.clamp(min=0) * height.clamp(min=0)
    return common / (box_area(a) + box_area(b) - common)


def outer_boxes(boxes: Tensor, width: float, height: float, factor: float = RING) -> Tensor:
    """(m, 4): the boxes enlarged about their centres by `factor`, cut at the borders of the image.

    >>> outer_boxes(torch.tensor([[4.0, 4.0, 8.0, 8.0]]), 20.0, 7.0, factor=2.0)
    tensor([[ 2.,  2., 10.,  7.]])
    """
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, factor / 2 * (boxes[:, 2:] - boxes[:, :2])
    limit = torch.tensor([width, height], dtype=boxes.dtype, device=boxes.device)
    return torch.cat([(centre - half).clamp(min=0), torch.minimum(centre + half, limit)], dim=1)


def checked_boxes(boxes: ArrayLike, total: int) -> Tensor:
    """(T, 4) finite corners x1, y1, x2, y2 with x2 > x1 and y2 > y1, T = `total`.

    >>> checked_boxes([[0, 0, 2, 1]], 1)
    tensor([[0., 0., 2., 1.]])
    """
    boxes = as_tensor(boxes)
    if boxes.shape != (total, 4):
        raise ValueError(f"boxes must have shape (T, 4) with T = {total}, but it has shape {tuple(boxes.shape)}")
    boxes = boxes.to(torch.float64 if boxes.dtype == torch.float64 else torch.float32)
    check_finite("boxes", boxes)
    bad = ((boxes[:, 2] <= boxes[:, 0]) | (boxes[:, 3] <= boxes[:, 1])).nonzero().flatten()
    if len(bad):
        i = int(bad[0])
        raise ValueError(f"boxes must have x2 > x1 and y2 > y1, but boxes[{i}] is {boxes[i].tolist()}")
    return boxes


class LabelledBoxes:
    """m boxes of several classes in many images, true or predicted; an image may have none.

    Args:
        image: (m,) the image that each box is in, from 0.
        label: (m,) class indices.
        box: (m, 4) corners x1, y1, x2, y2.
        score: (m,) confidence of predictions, higher is better; None for true boxes.
        difficult: (m,) true boxes that count neither for nor against a prediction, as PASCAL VOC marks them; default none.

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
        none = torch.zeros_like(self.label, dtype=torch.bool)
        self.difficult = none if difficult is None else self._column("difficult", difficult).bool()

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
        """The boxes in the images `index` (integers), which are renumbered 0, 1, … in that order.

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
        """(n, K) the labels of each image, as in VOC's lists: 1 present, −1 absent, 0 only difficult boxes of the class.

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
        """The boxes of several sets over the same images."""
        if not parts:
            raise ValueError("concat needs at least one set, but got none")
        if len({part.score is None for part in parts}) > 1:
            raise ValueError("concat needs scores in all of the sets or in none of them")
        names = ("image", "label", "box", "difficult")
        image, label, box, difficult = (torch.cat([getattr(part, name) for part in parts]) for name in names)
        score = None if parts[0].score is None else torch.cat([part.score for part in parts if part.score is not None])
        return LabelledBoxes(image, label, box, score, difficult)

    def _column(self, name: str, values: ArrayLike) -> Tensor:
        column = as_tensor(values).to(self.box.device)
        if column.shape != (len(self.box),):
            raise ValueError(f"{name} must have shape ({len(self.box)},), one per box, but it has shape {tuple(column.shape)}")
        return column

    def _indices(self, name: str, values: ArrayLike) -> Tensor:
        column = self._column(name, values)
        if len(column) and (column.is_floating_point() or column.dtype == torch.bool):
            raise ValueError(f"{name} must hold integers, but it is {column.dtype}")
        if bool((column < 0).any()):
            raise ValueError(f"{name} must not be negative, but {name}[{int((column < 0).nonzero()[0])}] is {int(column[column < 0][0])}")
        return column.long()


def suppressed(found: LabelledBoxes, overlap: float = 0.3, max_boxes: int | None = None) -> LabelledBoxes:
    """Non-maximum suppression within each image and class: drop boxes that overlap a better one by more than `overlap`; best first.

    Args:
        found: boxes with scores.
        overlap: intersection over union.
        max_boxes: per image and class; default all.

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
    from torchvision.ops import nms  # here, since it takes as long to import as torch

    # torchvision's batched_nms scans all boxes once per group, which is slow for thousands of images.
    group = found.image * (int(found.label.max()) + 1) + found.label
    order = group.argsort(stable=True)
    sizes = group.unique(return_counts=True)[1].tolist()
    kept = [rows[nms(found.box[rows], found.score[rows].to(found.box.dtype), overlap)[:max_boxes]] for rows in order.split(sizes)]
    return found[torch.cat(kept)]


def distinct(boxes: Tensor, overlap: float, count: int) -> Tensor:
    """Non-maximum suppression by order: the first `count` of the (m, 4) boxes that overlap no earlier kept one by more than `overlap`.

    >>> distinct(torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [2.0, 2.0, 4.0, 4.0]]), overlap=0.5, count=20)
    tensor([0, 2])
    """
    from torchvision.ops import nms  # here, since it takes as long to import as torch

    return nms(boxes, -torch.arange(len(boxes), dtype=boxes.dtype), overlap)[:count]
