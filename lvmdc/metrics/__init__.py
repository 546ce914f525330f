"""How good predictions are: small pure functions on tensors."""

from lvmdc.metrics.classes import class_error
from lvmdc.metrics.detection import box_recall, coco_average_precision, corloc_by_class
from lvmdc.metrics.localisation import corloc, mean_overlap, overlaps, recall
from lvmdc.metrics.loss import test_loss
from lvmdc.metrics.precision import area_precision, average_precision, matches, precision_recall

__all__ = [
    "area_precision",
    "average_precision",
    "box_recall",
    "class_error",
    "coco_average_precision",
    "corloc",
    "corloc_by_class",
    "matches",
    "mean_overlap",
    "overlaps",
    "precision_recall",
    "recall",
    "test_loss",
]
