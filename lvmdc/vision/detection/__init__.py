"""Several objects of several classes in a picture, learned from the picture's labels alone."""

from lvmdc.boxes import suppressed
from lvmdc.vision.detection.calibration import calibrate, platt
from lvmdc.vision.detection.class_problem import PresenceMap
from lvmdc.vision.detection.contrast import Contrast
from lvmdc.vision.detection.detector import Detector
from lvmdc.vision.detection.evaluation import measure, told_candidates, told_objects, unlearned
from lvmdc.vision.detection.export import pseudo_labels, save_coco

__all__ = [
    "Contrast",
    "Detector",
    "PresenceMap",
    "calibrate",
    "measure",
    "platt",
    "pseudo_labels",
    "save_coco",
    "suppressed",
    "told_candidates",
    "told_objects",
    "unlearned",
]
