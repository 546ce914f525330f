"""Which blocks alternate: DISC, LSVM, ILSVM and the supervised bound, under one API."""

from lvmdc.learners.base import ConvergenceWarning, LatentLearner
from lvmdc.learners.disc import DISC
from lvmdc.learners.ilsvm import ILSVM
from lvmdc.learners.lsvm import LSVM
from lvmdc.learners.supervised import Supervised

__all__ = ["DISC", "ILSVM", "LSVM", "ConvergenceWarning", "LatentLearner", "Supervised"]
