"""Views of an image: the boxes move with the pixels."""

import pytest
import torch

from lvmdc import Candidates, OverlapLoss
from lvmdc.lightning.region_features import Augmentation

BOXES = torch.tensor([[8.0, 0.0, 24.0, 16.0], [16.0, 8.0, 48.0, 40.0], [0.0, 0.0, 64.0, 48.0]])


def marked():
    """An image whose first box alone is white."""
    pixels = torch.zeros(3, 48, 64, dtype=torch.uint8)
    pixels[:, 0:16, 8:24] = 255
    return pixels


@pytest.mark.parametrize(
    "settings", [{"flip": 1.0, "scale": (1.0, 1.0)}, {"flip": 0.0, "scale": (2.0, 2.0)}, {"flip": 1.0, "scale": (0.5, 0.5)}]
)
def test_a_box_holds_what_it_held(settings):
    pixels, boxes = Augmentation(colour=0.0, **settings)(marked(), BOXES, step=8)
    x1, y1, x2, y2 = boxes[0].round().long().tolist()
    inside = pixels[:, y1:y2, x1:x2].float()
    assert float(inside.mean()) > 230
    assert float(pixels.float().sum() - inside.sum()) < 0.1 * float(pixels.float().sum())


def test_overlaps_stay_and_sides_are_multiples_of_the_step():
    loss = OverlapLoss()
    before = loss.expected_loss(Candidates(torch.zeros(3, 1), [3], BOXES), [0], torch.ones(3))
    for seed in range(10):
        torch.manual_seed(seed)
        pixels, boxes = Augmentation(scale=(0.6, 1.6))(marked(), BOXES, step=16)
        assert pixels.dtype == torch.uint8
        assert all(side % 16 == 0 for side in pixels.shape[1:])
        after = loss.expected_loss(Candidates(torch.zeros(3, 1), [3], boxes), [0], torch.ones(3))
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def test_a_seed_makes_the_same_view():
    views = []
    for _ in range(2):
        torch.manual_seed(3)
        views.append(Augmentation()(torch.randint(0, 256, (3, 48, 64), dtype=torch.uint8), BOXES, step=8))
    assert torch.equal(views[0][0], views[1][0])
    assert torch.equal(views[0][1], views[1][1])


@pytest.mark.parametrize("settings", [{"flip": 1.5}, {"scale": (1.2, 0.8)}, {"scale": (0.0, 1.0)}, {"colour": 1.0}])
def test_what_cannot_be_is_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must"):
        Augmentation(**settings)
