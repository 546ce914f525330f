"""What is kept of images is what the network would make of them again."""

import numpy as np
import pytest
import torch

from lvmdc.lightning import LatentDataModule
from lvmdc.lightning import region_features as module
from lvmdc.lightning.region_features import Augmentation, RegionFeatures
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.grid import WindowGrid


def small(**settings):
    return RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, **settings)


def samples_of(count=3):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (24 + 8 * i, 32, 3), dtype=np.uint8) for i in range(count)]
    data = LatentDataModule(ImageSet(arrays, ["a"], [0] * count), WindowGrid(size=(16, 16), stride=8), Learned(), progress=False)
    return data._of_images()


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


def test_the_frozen_part_runs_once_for_a_image_and_once_for_its_mirror_image(monkeypatch):
    samples, network = samples_of(), small(frozen="layers.5")
    calls, begin = [], network.begin
    monkeypatch.setattr(network, "begin", lambda pixels: calls.append(1) or begin(pixels))
    regions = RegionFeatures(network)
    for flip in (0.0, 1.0, 0.5):
        for _ in range(2):
            regions(samples, Augmentation(flip, (1, 1), 0))
    assert len(calls) == 2 * len(samples)


def test_what_memory_does_not_hold_is_made_anew(monkeypatch):
    samples, network = samples_of(), small(frozen="layers.5")
    expected = RegionFeatures(network).describe(samples, calibrate=True).features
    monkeypatch.setattr(module, "LIMIT", 0)
    regions = RegionFeatures(network)
    torch.testing.assert_close(regions.describe(samples).features, expected)
    assert not regions.kept._views
