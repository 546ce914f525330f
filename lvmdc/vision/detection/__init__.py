"""Several objects of several classes in an image, learned from the image's labels alone."""

from lvmdc.boxes import suppressed
from lvmdc.vision.detection.calibration import calibrate, platt
from lvmdc.vision.detection.class_problem import PresenceMap
from lvmdc.vision.detection.contrast import Contrast
from lvmdc.vision.detection.detector import Detector
from lvmdc.vision.detection.evaluation import baselines, measure, supervised
from lvmdc.vision.detection.exclusive import ExclusiveDetector
from lvmdc.vision.detection.export import pseudo_labels, save_coco
from lvmdc.vision.detection.ground_truth import ground_truth_candidates, ground_truth_objects

__all__ = [
    "Contrast",
    "Detector",
    "ExclusiveDetector",
    "PresenceMap",
    "baselines",
    "calibrate",
    "ground_truth_candidates",
    "ground_truth_objects",
    "measure",
    "platt",
    "pseudo_labels",
    "save_coco",
    "supervised",
    "suppressed",
]
