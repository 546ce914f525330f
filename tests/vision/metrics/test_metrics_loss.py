import pytest
import torch
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.losses import OverlapLoss, ZeroOneLoss
from lvmdc.vision import metrics

CANDIDATES = Candidates(torch.zeros(5, 1), [2, 3], boxes=[[0, 0, 4, 4], [2, 0, 6, 4], [0, 0, 3, 3], [1, 1, 5, 5], [0, 2, 4, 4]])


def test_the_zero_one_loss_is_the_share_of_wrong_pairs():
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 0], h_hat=[0, 1]) == 0.5
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[0, 0], h_hat=[0, 2]) == 0.5
    assert metrics.test_loss(ZeroOneLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 0], h_hat=[0, 2]) == 0.0


def test_the_overlap_loss_is_one_minus_overlap_where_classes_agree():
    boxes = CANDIDATES.boxes
    expected = (1 - float(box_iou(boxes[:1], boxes[1:2])) + 1) / 2  # the second sample's class is wrong
    assert metrics.test_loss(OverlapLoss(), CANDIDATES, y=[1, 0], h=[0, 2], y_hat=[1, 1], h_hat=[1, 2]) == pytest.approx(expected)
