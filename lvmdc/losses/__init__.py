"""Δ: the losses that the user may measure a prediction by."""

from lvmdc.losses.base import FunctionLoss, Loss, check_loss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.losses.label import CostLoss, LabelLoss, ZeroOneLoss
from lvmdc.losses.overlap import OverlapLoss
from lvmdc.losses.pairwise import PairwiseExpectation

__all__ = [
    "CostLoss",
    "ExpectedLoss",
    "FunctionLoss",
    "LabelLoss",
    "Loss",
    "OverlapLoss",
    "PairwiseExpectation",
    "ZeroOneLoss",
    "check_loss",
]
