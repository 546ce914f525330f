"""Views of an image, whose boxes move with the pixels, and images that are kept in memory."""

import numpy as np
import pytest
import torch

from lvmdc import Candidates, OverlapLoss
from lvmdc.lightning import LatentDataModule
from lvmdc.lightning import region_features as module
from lvmdc.lightning.region_features import Augmentation, RegionFeatures
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.base import WindowGrid

# Views are made on the CPU, where images are read.
BOXES = torch.tensor([[8.0, 0.0, 24.0, 16.0], [16.0, 8.0, 48.0, 40.0], [0.0, 0.0, 64.0, 48.0]], device="cpu")


def marked():
    """An image whose first box alone is white."""
    pixels = torch.zeros(3, 48, 64, dtype=torch.uint8, device="cpu")
    pixels[:, 0:16, 8:24] = 255
    return pixels


@pytest.mark.parametrize(
    "settings", [{"flip": 1.0, "scale": (1.0, 1.0)}, {"flip": 0.0, "scale": (2.0, 2.0)}, {"flip": 1.0, "scale": (0.5, 0.5)}]
)
def test_a_box_keeps_its_content(settings):
    pixels, boxes = Augmentation(colour=0.0, **settings)(marked(), BOXES, step=8)
    x1, y1, x2, y2 = boxes[0].round().long().tolist()
    inside = pixels[:, y1:y2, x1:x2].float()
    assert float(inside.mean()) > 230
    assert float(pixels.float().sum() - inside.sum()) < 0.1 * float(pixels.float().sum())


def test_overlaps_stay_and_sides_are_multiples_of_the_step():
    loss = OverlapLoss()
    before = loss.expected_loss(Candidates(BOXES, [3], BOXES), [0], BOXES.new_ones(3))
    for seed in range(10):
        torch.manual_seed(seed)
        pixels, boxes = Augmentation(scale=(0.6, 1.6))(marked(), BOXES, step=16)
        assert pixels.dtype == torch.uint8
        assert all(side % 16 == 0 for side in pixels.shape[1:])
        after = loss.expected_loss(Candidates(boxes, [3], boxes), [0], boxes.new_ones(3))
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def test_a_seed_makes_the_same_view():
    views = []
    for _ in range(2):
        torch.manual_seed(3)
        views.append(Augmentation()(torch.randint(0, 256, (3, 48, 64), dtype=torch.uint8, device="cpu"), BOXES, step=8))
    assert torch.equal(views[0][0], views[1][0])
    assert torch.equal(views[0][1], views[1][1])


@pytest.mark.parametrize("settings", [{"flip": 1.5}, {"scale": (1.2, 0.8)}, {"scale": (0.0, 1.0)}, {"colour": 1.0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must"):
        Augmentation(**settings)


# ---- images in memory --------------------------------------------------------------------------------------------


def small(**settings):
    return RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, **settings)


def samples_of(count=3):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (24 + 8 * i, 32, 3), dtype=np.uint8) for i in range(count)]
    data = LatentDataModule(ImageSet(arrays, ["a"], [0] * count), WindowGrid(size=(16, 16), stride=8), Learned(), progress=False)
    return data.of_images(torch.arange(1))


@pytest.mark.parametrize("augmentation", [None, Augmentation(1.0, (1, 1), 0), Augmentation()])
def test_a_frozen_part_gives_the_numbers_of_the_whole_network(augmentation):
    samples, found = samples_of(), []
    for network in (small(), small(frozen="layers.5")):
        regions = RegionFeatures(network.eval())
        regions.describe(samples, calibrate=True)
        for _ in range(2):  # the second time from what was kept
            torch.manual_seed(3)
            found.append(regions(samples, augmentation).features.detach())
    torch.testing.assert_close(found[1], found[0])
    if augmentation is None or augmentation.only_mirrors:
        torch.testing.assert_close(found[2], found[0])
    torch.testing.assert_close(found[3], found[2])


def test_the_frozen_part_runs_once_for_an_image_and_once_for_its_mirror_image(monkeypatch):
    samples, network = samples_of(), small(frozen="layers.5")
    calls, begin = [], network.begin
    monkeypatch.setattr(network, "begin", lambda pixels: calls.append(1) or begin(pixels))
    regions = RegionFeatures(network)
    for flip in (0.0, 1.0, 0.5):
        for _ in range(2):
            regions(samples, Augmentation(flip, (1, 1), 0))
    assert len(calls) == 2 * len(samples)


def test_images_that_do_not_fit_in_memory_are_made_again(monkeypatch):
    samples, network = samples_of(), small(frozen="layers.5")
    expected = RegionFeatures(network).describe(samples, calibrate=True).features
    monkeypatch.setattr(module, "LIMIT", 0)
    regions = RegionFeatures(network)
    torch.testing.assert_close(regions.describe(samples).features, expected)
    assert not regions.kept
