import pytest
import torch
import torchvision.ops

from lvmdc import Candidates, OverlapLoss
from lvmdc.losses import box_area, box_iou
from lvmdc.testing import LossConformance, random_candidates


class TestOverlapLoss(LossConformance):
    def make_loss(self):
        return OverlapLoss()


class TestOverlapLossOfBoxesFarFromTheOrigin(TestOverlapLoss):
    """Pixels of a large picture, in float32: Δ(z, z) is zero to the last bit."""

    def make_candidates(self):
        c = super().make_candidates()
        return Candidates(c.features, c.counts, (1e5 + 37 * c.boxes).float())


def test_overlap_is_that_of_torchvision():
    boxes = random_candidates([12]).boxes
    assert torch.allclose(box_iou(boxes[:, None], boxes), torchvision.ops.box_iou(boxes, boxes))
    assert torch.allclose(box_area(boxes), torchvision.ops.box_area(boxes))


def test_boxes_that_only_touch_do_not_overlap():
    touching = torch.tensor([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 2.0, 2.0]])
    assert torch.equal(box_iou(touching[:, None], touching), torch.eye(3))


def test_candidates_without_boxes_are_refused():
    bare = Candidates(torch.zeros(2, 1), [2])
    for ask in (
        lambda: OverlapLoss().expected_loss(bare, [0], torch.ones(2)),
        lambda: OverlapLoss().diversity(bare, [0], torch.ones(2)),
        lambda: OverlapLoss().between(bare, [0], [0], [0], [1]),
    ):
        with pytest.raises(ValueError, match=r"OverlapLoss needs Candidates\(..., boxes=…\), but boxes is None"):
            ask()
