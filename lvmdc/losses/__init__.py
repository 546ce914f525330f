"""Δ: the losses that the user may measure a prediction by."""

from lvmdc.losses.base import Loss, check_loss
from lvmdc.losses.bound import BoundLoss
from lvmdc.losses.cost import CostLoss
from lvmdc.losses.function import FunctionLoss
from lvmdc.losses.label import LabelLoss
from lvmdc.losses.overlap import OverlapLoss, box_area, box_iou
from lvmdc.losses.pairwise import PairwiseExpectation
from lvmdc.losses.zero_one import ZeroOneLoss

__all__ = [
    "BoundLoss",
    "CostLoss",
    "FunctionLoss",
    "LabelLoss",
    "Loss",
    "OverlapLoss",
    "PairwiseExpectation",
    "ZeroOneLoss",
    "box_area",
    "box_iou",
    "check_loss",
]
