"""Several objects of several classes in a picture, learned from the picture's labels alone."""

from lvmdc.detection.detector import Detector
from lvmdc.detection.presence import PresenceMap
from lvmdc.detection.suppression import suppressed
from lvmdc.detection.told import told_candidates

__all__ = ["Detector", "PresenceMap", "suppressed", "told_candidates"]
