import numpy as np
import pytest
import torch

from lvmdc import Candidates, OverlapLoss
from lvmdc.boxes import box_iou
from lvmdc.losses.overlap import TILE, expected_overlap_loss
from lvmdc.testing import LossConformance, random_candidates, random_weights


class TestOverlapLoss(LossConformance):
    def make_loss(self):
        return OverlapLoss()


class TestOverlapLossOfBoxesFarFromTheOrigin(TestOverlapLoss):
    """Pixels of a large image, in float32: Δ(z, z) is zero to the last bit."""

    def make_candidates(self):
        c = super().make_candidates()
        return Candidates(c.features, c.counts, (1e5 + 37 * c.boxes).float())


def test_candidates_without_boxes_are_refused():
    bare = Candidates(torch.zeros(2, 1), [2])
    for ask in (
        lambda: OverlapLoss().expected_loss(bare, [0], torch.ones(2)),
        lambda: OverlapLoss().diversity(bare, [0], torch.ones(2)),
        lambda: OverlapLoss().between(bare, [0], [0], [0], [1]),
    ):
        with pytest.raises(ValueError, match=r"OverlapLoss needs Candidates\(..., boxes=…\), but boxes is None"):
            ask()


@pytest.mark.needs(".numpy(), by which compiled loops read")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("counts", [[1], [3, 1, 2], [1500, 40]])  # one sample is longer than what is summed at a time
def test_the_compiled_sums_are_those_over_pairs_of_boxes(counts, dtype):
    c = random_candidates(counts, dtype=dtype)
    p = random_weights(c, dtype=dtype)
    expected = torch.cat(
        [(1 - box_iou(b[:, None], b)) @ q for b, q in zip(c.boxes.double().split(counts), p.double().split(counts), strict=True)]
    )
    assert torch.allclose(expected_overlap_loss(c, p).double(), expected, atol=1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.needs(".numpy(), by which compiled loops read")
def test_the_compiled_sums_can_be_differentiated_twice_and_are_none_of_a_box_with_itself():
    c = random_candidates([3, 2])
    p = random_weights(c).requires_grad_()
    assert torch.autograd.gradcheck(lambda q: expected_overlap_loss(c, q), p)
    assert torch.autograd.gradgradcheck(lambda q: expected_overlap_loss(c, q) * q, p)
    for row in range(5):
        alone = torch.zeros(5).index_fill(0, torch.tensor([row]), 1.0)
        assert float(expected_overlap_loss(c, alone)[row]) == 0.0


@pytest.mark.needs(".numpy(), by which compiled loops read")
def test_the_compiled_sums_have_one_order_to_the_last_digit():
    c = random_candidates([1500], dtype=torch.float32)
    p = random_weights(c, dtype=torch.float32)
    x1, y1, x2, y2 = np.ascontiguousarray(c.boxes.float().numpy().T)
    area, total = (x2 - x1) * (y2 - y1), np.zeros(1500)
    for tile in range(0, 1500, TILE):
        part = np.zeros(1500, np.float32)
        for j in range(tile, min(tile + TILE, 1500)):
            width = np.maximum(np.minimum(x2[j], x2) - np.maximum(x1[j], x1), np.float32(0))
            height = np.maximum(np.minimum(y2[j], y2) - np.maximum(y1[j], y1), np.float32(0))
            common = width * height
            part += p[j].item() * (np.float32(1) - common / (area[j] + area - common))
        total += part
    assert np.array_equal(expected_overlap_loss(c, p).numpy(), total.astype(np.float32))
