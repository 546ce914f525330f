"""How good predictions are: small pure functions on tensors."""

from lvmdc.metrics.classes import class_error
from lvmdc.metrics.localisation import corloc, mean_overlap, overlaps, recall
from lvmdc.metrics.loss import test_loss

__all__ = ["class_error", "corloc", "mean_overlap", "overlaps", "recall", "test_loss"]
