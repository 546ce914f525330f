"""Several objects of several classes in a picture, learned from the picture's labels alone."""

from lvmdc.detection.calibration import calibrate, platt
from lvmdc.detection.detector import Detector
from lvmdc.detection.export import save_coco
from lvmdc.detection.measures import measure
from lvmdc.detection.presence import PresenceMap
from lvmdc.detection.start import Contrast
from lvmdc.detection.suppression import suppressed
from lvmdc.detection.told import told_candidates

__all__ = ["Contrast", "Detector", "PresenceMap", "calibrate", "measure", "platt", "save_coco", "suppressed", "told_candidates"]
