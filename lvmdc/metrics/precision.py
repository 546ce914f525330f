"""Average precision as PASCAL VOC's development kit computes it.

Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL visual object classes (VOC) challenge. IJCV 2010.
"""

from typing import Literal

import torch
from torch import Tensor

from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.losses.overlap import box_iou

Interpolation = Literal["area", "11_point"]


def matches(found: LabelledBoxes, truth: LabelledBoxes, iou: float = 0.5) -> tuple[Tensor, int]:
    """Each predicted box of one class, best score first: 1 right, 0 wrong, −1 it does not count; and how many there are to find.

    A prediction belongs to the true box of its picture that it overlaps most. It is right if that overlap is at least `iou` and no better
    prediction has taken the box; it does not count if the box is difficult. Difficult boxes need not be found.

    >>> truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]])
    >>> matches(LabelledBoxes([0, 0], [0, 0], [[0, 0, 2, 1], [0, 0, 2, 2]], score=[0.1, 0.9]), truth)
    (tensor([1, 0]), 1)
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    order = found.score.argsort(descending=True, stable=True)
    verdict = torch.zeros(len(found), dtype=torch.long)
    taken = torch.zeros(len(truth), dtype=torch.bool)
    places = {i: (truth.picture == i).nonzero().flatten() for i in truth.picture.unique().tolist()}
    pictures = found.picture.tolist()
    for j, k in enumerate(order.tolist()):
        own = places.get(pictures[k])
        if own is None:
            continue
        overlap = box_iou(found.box[k].double(), truth.box[own].double())
        best = int(overlap.argmax())
        if float(overlap[best]) < iou:
            continue
        at = int(own[best])
        if bool(truth.difficult[at]):
            verdict[j] = -1
        elif not bool(taken[at]):
            verdict[j], taken[at] = 1, True
    return verdict, int((~truth.difficult).sum())


def precision_recall(verdict: Tensor, n_truth: int) -> tuple[Tensor, Tensor]:
    """Precision and recall after each counted prediction, from the `matches` of one class.

    >>> precision_recall(torch.tensor([1, -1, 0, 1]), n_truth=4)
    (tensor([1.0000, 0.5000, 0.6667], dtype=torch.float64), tensor([0.2500, 0.2500, 0.5000], dtype=torch.float64))
    """
    right = (verdict[verdict >= 0] == 1).double().cumsum(0)
    return right / torch.arange(1, len(right) + 1, dtype=torch.float64), right / n_truth


def area_precision(precision: Tensor, recall: Tensor, interpolation: Interpolation = "area") -> float:
    """The average of p(r), the highest precision at a recall of r or more.

    Over r in [0, 1] (`area`, VOC since 2010) or over r = 0, 0.1, …, 1 (`11_point`, VOC before).

    >>> area_precision(torch.tensor([1.0, 0.5]), torch.tensor([0.5, 1.0]))
    0.75
    """
    if interpolation == "11_point":
        # A recall of 3/10 counts at r = 0.3 however the two are rounded.
        best = [precision[recall >= r / 10 - 1e-12] for r in range(11)]
        return sum(float(p.max()) if len(p) else 0.0 for p in best) / 11
    if interpolation != "area":
        raise ValueError(f"interpolation must be area or 11_point, but it is {interpolation!r}")
    highest = precision.flip(0).cummax(0).values.flip(0) if len(precision) else precision
    width = recall.diff(prepend=recall.new_zeros(1))
    return float((highest * width).sum())


def average_precision(
    found: LabelledBoxes, truth: LabelledBoxes, n_classes: int, iou: float = 0.5, interpolation: Interpolation = "area"
) -> Tensor:
    """(K,) VOC's average precision of each class; NaN for a class that has no true box to find. Its mean is the mAP.

    >>> truth = LabelledBoxes([0, 1], [0, 0], [[0, 0, 2, 2], [0, 0, 2, 2]])
    >>> average_precision(LabelledBoxes([0, 1], [0, 0], [[0, 0, 2, 2], [5, 5, 7, 7]], score=[0.9, 0.1]), truth, n_classes=2)
    tensor([0.5000,    nan], dtype=torch.float64)
    """
    if not 0 < iou <= 1:
        raise ValueError(f"iou must lie in (0, 1], but it is {iou}")
    values = torch.full((n_classes,), torch.nan, dtype=torch.float64)
    for k in range(n_classes):
        verdict, n_truth = matches(found.of_label(k), truth.of_label(k), iou)
        if n_truth:
            values[k] = area_precision(*precision_recall(verdict, n_truth), interpolation)
    return values
