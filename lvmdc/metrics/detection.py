"""How well the objects of several classes are found in pictures: CorLoc by class, the recall of proposals, COCO's average precision."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.losses.overlap import box_iou

LISTS = {"map": "AP", "map_50": "AP50", "map_75": "AP75", "map_small": "AP_small", "map_medium": "AP_medium", "map_large": "AP_large"}


def corloc_by_class(found: LabelledBoxes, truth: LabelledBoxes, n_classes: int, iou: float = 0.5) -> Tensor:
    """(K,) the share of pictures that show class k in which the best predicted box of class k overlaps a true one by at least `iou`.

    A picture without a prediction of the class counts as missed, one whose boxes of the class are all difficult not at all. NaN for a
    class that no picture shows.

    >>> truth = LabelledBoxes([0, 0, 1], [0, 0, 0], [[0, 0, 2, 2], [4, 4, 6, 6], [0, 0, 2, 2]])
    >>> found = LabelledBoxes([0, 0], [0, 0], [[4, 4, 6, 6], [8, 8, 9, 9]], score=[0.9, 0.1])
    >>> corloc_by_class(found, truth, n_classes=2)
    tensor([0.5000,    nan], dtype=torch.float64)
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    values = torch.full((n_classes,), torch.nan, dtype=torch.float64)
    easy = truth[~truth.difficult]
    for k in range(n_classes):
        own, right = found.of_label(k), easy.of_label(k)
        hits = []
        for i in right.picture.unique().tolist():
            here = own.of_picture(i)
            best = None if len(here) == 0 or here.score is None else here.box[here.score.argmax()]
            hits.append(best is not None and bool((box_iou(best, right.of_picture(i).box) >= iou).any()))
        if hits:
            values[k] = sum(hits) / len(hits)
    return values


def box_recall(candidates: Candidates, truth: LabelledBoxes, iou: float = 0.5) -> float:
    """The share of true boxes that some candidate of their picture overlaps by at least `iou`, difficult ones aside: what proposals allow.

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
    for i, box in zip(easy.picture.tolist(), easy.box, strict=True):
        hits += bool((box_iou(candidates.boxes[first[i] : first[i] + count[i]], box.to(candidates.boxes)) >= iou).any())
    return hits / len(easy)


def coco_average_precision(found: LabelledBoxes, truth: LabelledBoxes, n_pictures: int) -> dict[str, float]:
    """COCO's precisions by torchmetrics: `AP` over IoU 0.5, 0.55, …, 0.95, `AP50`, `AP75`, and those of small, medium and large ones.

    Difficult boxes are crowds to COCO: predictions on them do not count. −1 where there is nothing to find. torchmetrics needs
    pycocotools for it: `pip install 'lvmdc[coco]'`.

    >>> truth = LabelledBoxes([0], [0], [[0, 0, 40, 40]])
    >>> coco_average_precision(LabelledBoxes([0], [0], [[0, 0, 40, 30]], score=[0.9]), truth, n_pictures=1)["AP"]  # doctest: +SKIP
    0.6
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    from torchmetrics.detection import MeanAveragePrecision  # takes a second to load

    try:
        metric = MeanAveragePrecision(box_format="xyxy", iou_type="bbox")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("COCO's average precision needs pycocotools: pip install 'lvmdc[coco]'") from None
    metric.warn_on_many_detections = False  # COCO counts the best hundred of a picture, and says so in its name
    for i in range(n_pictures):
        guess, right = found.of_picture(i), truth.of_picture(i)
        assert guess.score is not None
        metric.update(
            [{"boxes": guess.box, "scores": guess.score, "labels": guess.label}],
            [{"boxes": right.box, "labels": right.label, "iscrowd": right.difficult.long()}],
        )
    values = metric.compute()
    return {name: float(values[key]) for key, name in LISTS.items()}
