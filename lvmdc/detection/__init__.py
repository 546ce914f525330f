"""Several objects of several classes in a picture, learned from the picture's labels alone."""

from lvmdc.detection.calibration import calibrate, platt
from lvmdc.detection.detector import Detector
from lvmdc.detection.export import save_coco
from lvmdc.detection.measures import measure
from lvmdc.detection.presence import PresenceMap
from lvmdc.detection.pseudo import pseudo_labels
from lvmdc.detection.start import Contrast
from lvmdc.detection.suppression import suppressed
from lvmdc.detection.told import told_candidates, told_objects
from lvmdc.detection.unlearned import unlearned

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
