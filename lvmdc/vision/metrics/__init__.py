"""Measures of predictions: pure functions on tensors."""

from lvmdc.vision.metrics.detection import (
    area_precision,
    average_precision,
    box_recall,
    coco_average_precision,
    corloc_by_class,
    matches,
    precision_recall,
)
from lvmdc.vision.metrics.localisation import class_error, corloc, mean_overlap, overlaps, recall, test_loss, true_candidate

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
    "true_candidate",
]
