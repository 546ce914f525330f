"""Measures of detections in images: VOC's and COCO's average precision, CorLoc by class, recall of proposals.

Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL visual object classes (VOC) challenge. IJCV 2010.
"""

from typing import Literal

import torch
from torch import Tensor

from lvmdc.boxes import LabelledBoxes, box_iou
from lvmdc.candidates import Candidates

Interpolation = Literal["area", "11_point"]


def matches(found: LabelledBoxes, truth: LabelledBoxes, iou: float = 0.5) -> tuple[Tensor, int]:
    """Each predicted box of one class, best score first: 1 right, 0 wrong, −1 ignored; and the number of true boxes to find.

    A prediction belongs to the true box of its image that it overlaps most. It is right if that overlap is at least `iou` and no better
    prediction has the box; it is ignored if the box is difficult. Difficult boxes need not be found.

    >>> truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]])
    >>> matches(LabelledBoxes([0, 0], [0, 0], [[0, 0, 2, 1], [0, 0, 2, 2]], score=[0.1, 0.9]), truth)
    (tensor([1, 0]), 1)
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    found, truth = found.to("cpu"), truth.to("cpu")
    assert found.score is not None
    best = torch.full((len(found),), -1)  # the true box that each overlaps most, and enough
    for i in truth.image.unique().tolist():
        own, right = (found.image == i).nonzero().flatten(), (truth.image == i).nonzero().flatten()
        if len(own):
            overlap, at = box_iou(found.box[own, None].double(), truth.box[right].double()).max(dim=1)
            best[own] = torch.where(overlap >= iou, right[at], -1)
    order = found.score.argsort(descending=True, stable=True)
    difficult, verdict = truth.difficult.tolist(), torch.zeros(len(found), dtype=torch.long)
    taken: set[int] = set()
    for j, at in enumerate(best[order].tolist()):
        if at >= 0 and difficult[at]:
            verdict[j] = -1
        elif at >= 0 and at not in taken:
            verdict[j] = 1
            taken.add(at)
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
        # A recall of 3/10 counts at r = 0.3 despite rounding.
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


LISTS = {"map": "AP", "map_50": "AP50", "map_75": "AP75", "map_small": "AP_small", "map_medium": "AP_medium", "map_large": "AP_large"}


def corloc_by_class(found: LabelledBoxes, truth: LabelledBoxes, n_classes: int, iou: float = 0.5) -> Tensor:
    """(K,) the share of images that show class k in which the best predicted box of class k overlaps a true one by at least `iou`.

    An image without a prediction of the class is a miss; one whose boxes of the class are all difficult is ignored. NaN for a class that no
    image shows.

    >>> truth = LabelledBoxes([0, 0, 1], [0, 0, 0], [[0, 0, 2, 2], [4, 4, 6, 6], [0, 0, 2, 2]])
    >>> found = LabelledBoxes([0, 0], [0, 0], [[4, 4, 6, 6], [8, 8, 9, 9]], score=[0.9, 0.1])
    >>> corloc_by_class(found, truth, n_classes=2)
    tensor([0.5000,    nan], dtype=torch.float64)
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    found, truth = found.to("cpu"), truth.to("cpu")
    values = torch.full((n_classes,), torch.nan, dtype=torch.float64)
    easy = truth[~truth.difficult]
    for k in range(n_classes):
        own, right = found.of_label(k), easy.of_label(k)
        hits = []
        for i in right.image.unique().tolist():
            here = own.of_image(i)
            best = None if len(here) == 0 or here.score is None else here.box[here.score.argmax()]
            hits.append(best is not None and bool((box_iou(best, right.of_image(i).box) >= iou).any()))
        if hits:
            values[k] = sum(hits) / len(hits)
    return values


def box_recall(candidates: Candidates, truth: LabelledBoxes, iou: float = 0.5) -> float:
    """The share of true, not difficult boxes that a candidate of their image overlaps by at least `iou`: the limit that proposals set.

    >>> candidates = Candidates(torch.zeros(2, 1), [1, 1], boxes=[[0, 0, 2, 2], [0, 0, 4, 4]])
    >>> box_recall(candidates, LabelledBoxes([0, 1], [0, 0], [[0, 0, 2, 2], [0, 0, 1, 1]]))
    0.5
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    easy = truth[~truth.difficult]
    if len(easy) == 0:
        raise ValueError("truth must have a box that is not difficult, but it has none")
    first, count = candidates.offsets.tolist(), candidates.counts.tolist()
    hits = 0
    for i, box in zip(easy.image.tolist(), easy.box, strict=True):
        hits += bool((box_iou(candidates.boxes[first[i] : first[i] + count[i]], box.to(candidates.boxes)) >= iou).any())
    return hits / len(easy)


def coco_average_precision(found: LabelledBoxes, truth: LabelledBoxes, n_images: int) -> dict[str, float]:
    """COCO's precisions by torchmetrics: `AP` over IoU 0.5, 0.55, …, 0.95, `AP50`, `AP75`, and those of small, medium and large objects.

    Difficult boxes are COCO's crowds: predictions on them are ignored. −1 where there is nothing to find. Needs pycocotools:
    `pip install 'lvmdc[coco]'`.

    >>> truth = LabelledBoxes([0], [0], [[0, 0, 40, 40]])
    >>> coco_average_precision(LabelledBoxes([0], [0], [[0, 0, 40, 30]], score=[0.9]), truth, n_images=1)["AP"]  # doctest: +SKIP
    0.6
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    from torchmetrics.detection import MeanAveragePrecision  # takes a second to load

    try:
        metric = MeanAveragePrecision(box_format="xyxy", iou_type="bbox")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("COCO's average precision needs pycocotools: pip install 'lvmdc[coco]'") from None
    metric.warn_on_many_detections = False  # COCO counts the best hundred of an image
    found, truth = found.to("cpu"), truth.to("cpu")
    for i in range(n_images):
        guess, right = found.of_image(i), truth.of_image(i)
        assert guess.score is not None
        metric.update(
            [{"boxes": guess.box, "scores": guess.score, "labels": guess.label}],
            [{"boxes": right.box, "labels": right.label, "iscrowd": right.difficult.long()}],
        )
    values = metric.compute()
    return {name: float(values[key]) for key, name in LISTS.items()}
