"""lvmdc: learning with latent variables by minimising a loss-based dissimilarity coefficient."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lvmdc.boxes import LabelledBoxes
from lvmdc.candidates import Candidates, Latent
from lvmdc.dissimilarity import dissimilarity, diversity
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.learners import DISC, EM, ILSVM, LSVM, M3E, SoftDISC, Supervised, fit_path
from lvmdc.losses import CostLoss, FunctionLoss, LabelLoss, Loss, OverlapLoss, ZeroOneLoss

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning

__version__ = version("lvmdc")

__all__ = [
    "DISC",
    "EM",
    "ILSVM",
    "LSVM",
    "M3E",
    "Candidates",
    "ClassBlocks",
    "ConvergenceWarning",
    "CostLoss",
    "FunctionLoss",
    "JointFeatureMap",
    "LabelLoss",
    "LabelledBoxes",
    "Latent",
    "Loss",
    "OverlapLoss",
    "SoftDISC",
    "Supervised",
    "ZeroOneLoss",
    "dissimilarity",
    "diversity",
    "fit_path",
]


def __getattr__(name: str) -> Any:
    if name == "ConvergenceWarning":  # scikit-learn's, which is imported when it is asked for
        from lvmdc import learners

        return learners.ConvergenceWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
