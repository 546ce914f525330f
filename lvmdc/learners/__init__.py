"""Which blocks alternate: DISC, LSVM, ILSVM, EM, M3E and the supervised bound, under one API."""

from lvmdc.learners.base import ConvergenceWarning, LatentLearner
from lvmdc.learners.disc import DISC
from lvmdc.learners.em import EM
from lvmdc.learners.lsvm import ILSVM, LSVM, Supervised
from lvmdc.learners.m3e import M3E
from lvmdc.learners.path import fit_path
from lvmdc.learners.soft_disc import SoftDISC

__all__ = ["DISC", "EM", "ILSVM", "LSVM", "M3E", "ConvergenceWarning", "LatentLearner", "SoftDISC", "Supervised", "fit_path"]
