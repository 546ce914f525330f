"""Every shipped description of candidates can be made from its file, and its options overridden."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from PIL import Image

from lvmdc.cli.config import checked
from lvmdc.vision.features import CNN, HOG, Concatenated, FileFeatures

BOXES = torch.tensor([[0.0, 0.0, 64.0, 48.0], [10.0, 0.0, 60.0, 40.0]])
NAMES = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "configs" / "features").glob("*.yaml"))
FROM_FILES = {"file", "mammals_hog"}
NOTHING = {"none"}  # for candidates that need no description


def make(config, *overrides):
    return instantiate(checked(config("train", *overrides)).features)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FROM_FILES | NOTHING])
def test_pixels_are_described(name, config):
    numbers = make(config, f"features={name}").describe(Image.effect_noise((64, 48), 80).convert("RGB"), BOXES)
    assert len(numbers) == 2
    assert bool(numbers.isfinite().all())


@pytest.mark.slow
def test_the_files_say_what_their_names_do(config):
    assert make(config, "features=cnn").mode == "crop"
    assert make(config, "features=cnn_roi", "features.longer_side=320").longer_side == 320
    assert make(config, "features=cnn_roi").normalise == 0
    assert make(config, "experiment=wsod_voc").normalise == 0.25
    assert make(config, "experiment=wsod_voc", "features.normalise=0").normalise == 0
    assert isinstance(make(config, "experiment=wsod_voc", "features=hog"), HOG)  # which has no such option
    hog = make(config, "features=hog_mammals")
    assert (hog.size[0] // hog.cell, hog.size[1] // hog.cell) == (8, 6)
    both = make(config, "features=hog_cnn", "features.parts.cnn.size=64", "features.weights.hog=2")
    assert isinstance(both, Concatenated)
    assert [type(part) for part in both.parts.values()] == [HOG, CNN]
    assert both.parts["cnn"].size == 64
    assert both.weights == {"hog": 2.0, "cnn": 1.0}


def test_a_file_of_features_is_named(config, tmp_path):
    np.savez(tmp_path / "a.npz", images=["a.jpg"], counts=[2], windows=BOXES.numpy(), numbers=np.eye(2))
    options = ["features=file", f"features.path={tmp_path}/a.npz", "features.boxes=windows", "features.features=numbers"]
    features = make(config, *options)
    assert torch.equal(features.describe_named(Image.new("RGB", (64, 48)), "a.jpg", BOXES), torch.eye(2))


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ, reason="LVMDC_DATA holds no mammals/hog.npz")
def test_the_authors_features_are_found(config):
    features = make(config, "features=mammals_hog")
    assert isinstance(features, FileFeatures)
    assert features.n_features == 1488
