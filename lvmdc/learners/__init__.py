"""Which blocks alternate: DISC, LSVM, ILSVM, EM, M3E and the supervised bound, under one API."""

from typing import TYPE_CHECKING, Any

from lvmdc.learners.base import LatentLearner
from lvmdc.learners.disc import DISC
from lvmdc.learners.em import EM
from lvmdc.learners.lsvm import ILSVM, LSVM, BlockLearner, Supervised
from lvmdc.learners.m3e import M3E
from lvmdc.learners.path import fit_path
from lvmdc.learners.prior_strength import strength_losses
from lvmdc.learners.soft_disc import SoftDISC

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "DISC",
    "EM",
    "ILSVM",
    "LSVM",
    "M3E",
    "BlockLearner",
    "ConvergenceWarning",
    "LatentLearner",
    "SoftDISC",
    "Supervised",
    "fit_path",
    "strength_losses",
]


def __getattr__(name: str) -> Any:
    if name == "ConvergenceWarning":  # imported when it is asked for, since scikit-learn takes nearly as long as torch
        from sklearn.exceptions import ConvergenceWarning

        return ConvergenceWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
