"""How good a detector is on pictures whose boxes are known."""

from lvmdc import metrics
from lvmdc.candidates import Candidates
from lvmdc.data.scenes import SceneSet
from lvmdc.detection.detector import Detector


def measure(detector: Detector, candidates: Candidates, scenes: SceneSet, iou: float = 0.5, coco: bool = False) -> dict[str, float]:
    """Means over the classes that the pictures show, each at an overlap of `iou`; and, for each class, `<measure>/<class>`.

    `corloc` of the best box for each label, `ap` and `ap_11_point`, VOC's average precision, `recall`, the share of the true boxes that
    some candidate finds, and, with `coco`, COCO's precisions (`coco/AP`, …). Nothing where no true box is known.

    >>> import numpy as np, torch
    >>> from lvmdc import LSVM, LabelledBoxes
    >>> c = Candidates(torch.tensor([[3.0], [0.0], [0.0], [0.1]]), [2, 2], [[0, 0, 2, 2], [4, 0, 6, 2]] * 2)
    >>> truth = LabelledBoxes([0], [0], [[0, 0, 2, 2]])
    >>> scenes = SceneSet.of_boxes([np.zeros((2, 6), np.uint8)] * 2, ["cat"], truth)
    >>> measure(Detector(LSVM(C=10.0, init="uniform")).fit(c, scenes.labels), c, scenes)["corloc"]
    1.0
    """
    truth, n_classes = scenes.truth, len(scenes.classes)
    if truth is None or not bool((~truth.difficult).any()):
        return {}
    found, located = detector.predict(candidates).to("cpu"), detector.locate(candidates, scenes.labels).to("cpu")
    by_class = {
        "corloc": metrics.corloc_by_class(located, truth, n_classes, iou),
        "ap": metrics.average_precision(found, truth, n_classes, iou),
        "ap_11_point": metrics.average_precision(found, truth, n_classes, iou, "11_point"),
    }
    values = {name: float(column.nanmean()) for name, column in by_class.items()}
    values["recall"] = metrics.box_recall(candidates.to("cpu"), truth, iou)
    if coco:
        precisions = metrics.coco_average_precision(found, truth, len(scenes))
        values |= {f"coco/{name}": value for name, value in precisions.items() if value >= 0}
    for name, column in by_class.items():
        values |= {f"{name}/{scenes.classes[k]}": float(column[k]) for k in range(n_classes) if not bool(column[k].isnan())}
    return values
