"""Several objects of several classes in a picture, learned from the picture's labels alone."""

from lvmdc.detection.suppression import suppressed

__all__ = ["suppressed"]
