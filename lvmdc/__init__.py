"""lvmdc: learning with latent variables by minimising a loss-based dissimilarity coefficient."""

from importlib.metadata import version

from lvmdc.boxes import LabelledBoxes
from lvmdc.candidates import Candidates, Latent
from lvmdc.dissimilarity import dissimilarity, diversity
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.learners import DISC, EM, ILSVM, LSVM, M3E, ConvergenceWarning, SoftDISC, Supervised, fit_path
from lvmdc.losses import CostLoss, FunctionLoss, LabelLoss, Loss, OverlapLoss, ZeroOneLoss

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
