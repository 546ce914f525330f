import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torchvision import models

from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import CNN, HOG, cache_key
from lvmdc.vision.proposals import WindowGrid

BOXES = torch.tensor([[0.0, 0.0, 200.0, 150.0], [100.0, 50.0, 420.0, 300.0], [30.5, 20.2, 90.7, 70.0], [400.0, 200.0, 640.0, 427.0]])


@pytest.fixture(scope="module")
def photograph():
    return Image.fromarray(load_sample_image("china.jpg"))


@pytest.fixture(scope="module")
def crop():
    return CNN(size=64, batch_size=2)


@pytest.fixture(scope="module")
def roi():
    return CNN(mode="roi", longer_side=320)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["crop", "roi"])
def test_descriptions_have_1280_finite_numbers_and_repeat_exactly(mode, photograph, crop, roi):
    cnn = {"crop": crop, "roi": roi}[mode]
    first, second = cnn.describe(photograph, BOXES), cnn.describe(photograph, BOXES)
    assert first.shape == (4, 1280)
    assert cnn.n_features == 1280
    assert first.dtype == torch.float32
    assert bool(first.isfinite().all())
    assert not first.requires_grad
    assert torch.equal(first, second)


@pytest.mark.parametrize("mode", ["crop", "roi"])
def test_a_window_has_the_same_features_alone_and_among_others(mode, photograph, crop, roi):
    cnn = {"crop": crop, "roi": roi}[mode]
    together = cnn.describe(photograph, BOXES)
    for box, row in zip(BOXES, together, strict=True):
        assert close(cnn.describe(photograph, box[None])[0], row)


def test_the_size_of_a_batch_changes_nothing(photograph, crop):
    assert close(CNN(size=64, batch_size=16).describe(photograph, BOXES), crop.describe(photograph, BOXES))


def test_a_crop_depends_on_its_own_pixels_alone(photograph, crop):
    box = BOXES[1]
    alone = photograph.crop(tuple(box.long().tolist()))
    assert close(crop.describe(alone, torch.tensor([[0.0, 0, *alone.size]])), crop.describe(photograph, box[None]))


def test_a_crop_is_the_mean_of_the_last_map(photograph, crop):
    pixels = np.asarray(photograph.crop((100, 50, 420, 300)).resize((64, 64), Image.Resampling.BILINEAR), np.float32)
    x = torch.from_numpy((pixels - 127) / 128).permute(2, 0, 1)[None]
    with torch.inference_mode():
        expected = 0.25 * crop.network.trunk(x).mean(dim=(2, 3))
    assert close(crop.describe(photograph, BOXES[1:2]), expected)


@pytest.mark.slow
def test_regions_and_crops_agree_on_the_whole_image(photograph):
    square = photograph.crop((0, 0, 427, 427))
    whole = torch.tensor([[0.0, 0.0, 427.0, 427.0]])
    a = CNN(size=128).describe(square, whole)[0]
    b = CNN(mode="roi", longer_side=128).describe(square, whole)[0]
    assert torch.cosine_similarity(a, b, dim=0) > 0.999


def test_regions_lie_where_their_windows_are():
    """A bright patch on black: the window about it is unlike the others, which are equal."""
    pixels = np.zeros((256, 256, 3), np.uint8)
    pixels[160:224, 32:96] = np.random.default_rng(0).integers(0, 255, (64, 64, 3))
    windows = torch.tensor([[0.0, 0, 128, 128], [128.0, 0, 256, 128], [0.0, 128, 128, 256], [128.0, 128, 256, 256]])
    numbers = CNN(mode="roi", longer_side=256, stride=16).describe(Image.fromarray(pixels), windows)
    apart = torch.cdist(numbers, numbers).sum(dim=1)
    assert int(apart.argmax()) == 2


def test_images_of_another_shape_keep_their_proportions(roi, monkeypatch):
    seen = []
    monkeypatch.setattr(
        roi, "_map", lambda images: seen.append(images[0].size) or torch.zeros(1, 1280, images[0].height // 32, images[0].width // 32)
    )
    for size in ((640, 427), (100, 200), (1000, 20)):
        roi.describe(Image.new("RGB", size), torch.tensor([[0.0, 0.0, *size]]))
    assert seen == [(320, 224), (160, 320), (320, 32)]


def test_a_finer_map_and_a_grid_have_more_numbers(photograph):
    for mode in ("crop", "roi"):
        cnn = CNN(mode=mode, size=64, longer_side=320, stride=16, grid=2)
        assert cnn.describe(photograph, BOXES).shape == (4, cnn.n_features)
        assert cnn.n_features == 4 * 672


def test_a_grid_of_means_averages_to_the_mean(photograph):
    whole = CNN(size=64, scale=1.0).describe(photograph, BOXES)
    parts = CNN(size=64, scale=1.0, grid=2).describe(photograph, BOXES).reshape(4, 1280, 4)
    assert close(2 * parts.mean(dim=2), whole)


@pytest.mark.parametrize("mode", ["crop", "roi"])
def test_windows_of_a_photograph_are_about_as_long_as_hog(mode, photograph):
    windows = WindowGrid(size=(160, 120), stride=120).boxes(photograph, "a")
    length = CNN(mode=mode).describe(photograph, windows).norm(dim=1).mean()
    hog = HOG(size=(128, 96), cell=16, orientations=18, signed=True).describe(photograph, windows).norm(dim=1).mean()
    assert 0.5 < length / hog < 2


def test_the_scale_is_a_factor(photograph, crop):
    assert close(CNN(size=64, scale=1.0).describe(photograph, BOXES), 4 * crop.describe(photograph, BOXES))


@pytest.mark.parametrize("mode", ["crop", "roi"])
@pytest.mark.parametrize("power", [0.0, 0.25])
def test_normalised_windows_keep_their_direction_and_their_length_is_a_power_of_their_area(mode, power, photograph, crop, roi):
    plain = {"crop": crop, "roi": roi}[mode].describe(photograph, BOXES)
    assert plain.norm(dim=1).max() > 1.05 * plain.norm(dim=1).min()
    options = {"mode": mode, "size": 64, "longer_side": 320, "normalise": power}
    share = torch.tensor([(x2 - x1) * (y2 - y1) / (640 * 427) for x1, y1, x2, y2 in BOXES.tolist()])
    length = 8 * share**power
    assert close(CNN(**options).describe(photograph, BOXES), length[:, None] * plain / plain.norm(dim=1, keepdim=True))
    assert close(CNN(**options, scale=3.0, grid=2).describe(photograph, BOXES).norm(dim=1), 3 / 8 * length)


def test_a_window_of_nothing_is_not_divided_by_zero(monkeypatch):
    cnn = CNN(mode="roi", normalise=0.0)
    monkeypatch.setattr(cnn, "_map", lambda images: torch.zeros(1, 1280, images[0].height // 32, images[0].width // 32))
    assert not bool(cnn.describe(Image.new("RGB", (64, 48)), torch.tensor([[0.0, 0, 20, 20]])).any())


def test_caches_from_before_windows_could_be_normalised_are_found():
    assert "normalise" not in CNN("mobilenet_v3_small", weights=None).settings()


@pytest.mark.slow
def test_everything_that_changes_the_numbers_is_in_the_key(tmp_path):
    images = ImageSet([np.zeros((64, 64), np.uint8)], ["a"], [0])
    changes = [{}, {"size": 96}, {"mode": "roi"}, {"mode": "roi", "longer_side": 320}, {"stride": 16}, {"grid": 2}, {"scale": 1.0}]
    changes += [{"normalise": 0.0}, {"normalise": 0.5}, {"normalise": 0.0, "scale": 0.25}]
    made = [CNN("mobilenet_v3_small", weights=None, **change) for change in changes]
    torch.manual_seed(5)
    torch.save(models.mobilenet_v3_small(weights=None).state_dict(), tmp_path / "other.pth")
    made.append(CNN("mobilenet_v3_small", weights=tmp_path / "other.pth"))
    made.append(CNN("mnasnet0_5", weights=None))
    assert len({cache_key(images, WindowGrid(), cnn) for cnn in made}) == len(made)
    same = [CNN("mobilenet_v3_small", weights=None, batch_size=3), CNN("mobilenet_v3_small", weights=None, longer_side=64)]
    assert {cache_key(images, WindowGrid(), cnn) for cnn in same} == {cache_key(images, WindowGrid(), made[0])}


def test_a_describer_can_be_sent_to_another_process(photograph, crop):
    sent = pickle.loads(pickle.dumps(crop))
    assert sent.settings() == crop.settings()
    assert close(sent.describe(photograph, BOXES[:1]), crop.describe(photograph, BOXES[:1]))


@pytest.mark.parametrize("mode", ["crop", "roi"])
def test_a_box_outside_the_image_is_refused(mode, photograph, crop, roi):
    with pytest.raises(ValueError, match=r"inside the image, 640 by 427 pixels, .* boxes\[1\] is"):
        {"crop": crop, "roi": roi}[mode].describe(photograph, torch.tensor([[0.0, 0, 9, 9], [600.0, 0, 641, 50]]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mode": "whole"}, "mode must be 'crop' or 'roi', but it is 'whole'"),
        ({"size": 100}, "size must be a multiple of 32 pixels, but it is 100"),
        ({"longer_side": 0}, "longer_side must be a multiple of 32 pixels, but it is 0"),
        ({"grid": 0}, "grid and batch_size must be at least 1, but they are 0 and 16"),
        ({"normalise": -0.5}, r"normalise must be at least 0, or None, but it is -0\.5"),
        ({"scale": 0.0}, r"scale must be positive, but it is 0\.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_loaded(changed, message, monkeypatch):
    monkeypatch.setattr("lvmdc.vision.features.cnn.load_backbone", lambda *a: pytest.fail("loaded"))
    with pytest.raises(ValueError, match=message):
        CNN(**changed)
