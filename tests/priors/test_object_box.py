"""Priors that know one box per image, beside brute force."""

import hashlib
import logging

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torchvision.ops import box_iou

from lvmdc.candidates import Candidates
from lvmdc.priors import CentredBoxPrior, CommonObjectPrior, ProductPrior, SaliencyPrior
from lvmdc.priors.object_box import ObjectBoxPrior, largest_region
from lvmdc.priors.saliency import packaged_model
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features import CNN, HOG
from lvmdc.vision.features.with_prior import TrainingImages, described_with_prior, with_prior

BOXES = torch.tensor([[0.0, 0.0, 20.0, 30.0], [10.0, 5.0, 60.0, 40.0], [0.0, 0.0, 64.0, 48.0]])


class Maps:
    """A network whose map of an image is its pixels, at 32 × 24 cells."""

    mode = "roi"

    def map(self, image):
        return torch.from_numpy(np.asarray(image.resize((32, 24)), np.float32)).permute(2, 0, 1)

    def settings(self):
        return {}


Maps.network = type("Network", (), {"channels": 3})


class Fixed(ObjectBoxPrior):
    def __init__(self, box, strength):
        super().__init__(strength)
        self.where = torch.tensor(box, device="cpu")  # where images are read

    def box(self, image):
        return self.where


def scene(seed):
    """Noise with a bright red rectangle, and its box."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 60, (96, 128, 3)).astype(np.uint8)
    x, y, w, h = (4 * int(value) for value in (rng.integers(2, 12), rng.integers(2, 8), rng.integers(8, 14), rng.integers(6, 12)))
    pixels[y : y + h, x : x + w] = np.array([230, 90, 60]) + rng.integers(0, 20, 3)
    return Image.fromarray(pixels), torch.tensor([x, y, x + w, y + h], dtype=torch.float32)


@pytest.fixture(scope="module")
def fitted():
    return CommonObjectPrior(Maps()).fit([scene(seed)[0] for seed in range(8)])


def test_weights_are_strength_times_overlap():
    prior = CentredBoxPrior(share=0.5, strength=3.0)
    expected = 3 * box_iou(BOXES, torch.tensor([[16.0, 12.0, 48.0, 36.0]]))[:, 0]
    assert torch.allclose(prior(Image.new("RGB", (64, 48)), BOXES), expected)


def test_a_product_adds_weights_and_joins_boxes_and_columns():
    one, other = Fixed([0.0, 0.0, 20.0, 30.0], 2.0), Fixed([10.0, 5.0, 60.0, 40.0], 5.0)
    both, image = ProductPrior(one, other), Image.new("RGB", (64, 48))
    assert torch.allclose(both(image, BOXES), one(image, BOXES) + other(image, BOXES))
    assert torch.equal(both.boxes(image), BOXES[:2].cpu())
    assert torch.allclose(both.columns(image, BOXES), box_iou(BOXES, BOXES[:2]))


def test_the_direction_is_the_first_component_of_all_cells_and_long_cells_are_positive(fitted):
    cells = torch.cat([Maps().map(scene(seed)[0]).flatten(1).T for seed in range(8)]).double()
    _, _, rows = torch.linalg.svd(cells - cells.mean(dim=0), full_matrices=False)
    assert abs(float(rows[0] @ fitted.direction.double())) == pytest.approx(1.0, abs=1e-5)
    projected = (cells - cells.mean(dim=0)) @ fitted.direction.double()
    assert np.corrcoef(projected, cells.norm(dim=1))[0, 1] > 0
    assert torch.allclose(fitted.mean.double(), cells.mean(dim=0), rtol=1e-4)


@pytest.mark.parametrize("seed", range(8, 12))
def test_the_common_object_is_found_in_images_it_was_not_fitted_on(fitted, seed):
    image, truth = scene(seed)
    assert float(box_iou(fitted.box(image)[None], truth[None].cpu())) > 0.6


def test_the_state_restores_the_box_and_another_network_is_refused(fitted):
    again = CommonObjectPrior(Maps())
    with pytest.raises(ValueError, match="must be fitted before it is used"):
        again.box(scene(0)[0])
    again.load_state_dict(fitted.state_dict())
    assert torch.equal(again.box(scene(9)[0]), fitted.box(scene(9)[0]))
    with pytest.raises(ValueError, match=r"must hold mean of shape \(3,\)"):
        again.load_state_dict({"mean": torch.zeros(4), "direction": torch.zeros(4)})
    with pytest.raises(ValueError, match="features of one map per image"):
        CommonObjectPrior(HOG())
    with pytest.raises(ValueError, match="at least one image"):
        again.fit([])


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_region_is_found_by_counting(seed):
    mask = np.random.default_rng(seed).random((9, 12)) < 0.45
    regions, count = ndimage.label(mask)
    sizes = [(regions == k).sum() for k in range(1, count + 1)]
    boxes = []
    for k in (k for k in range(1, count + 1) if sizes[k - 1] == max(sizes)):
        y, x = np.nonzero(regions == k)
        boxes.append([float(v) for v in (x.min() * 2, y.min() * 3, (x.max() + 1) * 2, (y.max() + 1) * 3)])
    assert largest_region(mask, 24.0, 27.0).tolist() in boxes


def test_a_region_is_at_least_a_pixel_inside_the_image():
    mask = np.zeros((64, 64), bool)
    mask[63, 63] = True
    assert largest_region(mask, 5.0, 3.0).tolist() == [4.0, 2.0, 5.0, 3.0]
    assert largest_region(mask & False, 5.0, 3.0).tolist() == [0.0, 0.0, 5.0, 3.0]


def test_saliency_finds_what_stands_out():
    pytest.importorskip("onnxruntime")
    try:
        packaged_model()
    except ModuleNotFoundError:
        pytest.skip("the package with the saliency network is not installed")
    prior = SaliencyPrior()
    y, x = np.mgrid[:160, :240]
    disc = (x - 90) ** 2 + (y - 80) ** 2 < 45**2
    image = Image.fromarray(np.where(disc[..., None], [200, 40, 30], [120, 160, 120]).astype(np.uint8))
    assert float(box_iou(prior.box(image)[None], torch.tensor([[45.0, 35.0, 136.0, 126.0]], device="cpu"))) > 0.7
    assert prior.digest == hashlib.sha256(packaged_model().read_bytes()).hexdigest()


def test_a_file_that_is_no_model_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "a.onnx").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.onnx is not an ONNX model"):
        SaliencyPrior(tmp_path / "a.onnx")
    with pytest.raises(FileNotFoundError, match=r"b\.onnx does not exist"):
        SaliencyPrior(tmp_path / "b.onnx")
    with pytest.raises(ValueError, match="threshold must lie in"):
        SaliencyPrior(threshold=1.0)


@pytest.fixture(scope="module")
def described():
    """Three images of several sizes, with different numbers of candidates, and their features."""
    rng = np.random.default_rng(0)
    images = ImageSet([rng.integers(0, 255, (96, 64 + 16 * i, 3), dtype=np.uint8) for i in range(3)], ["a"])
    features = CNN("mobilenet_v3_small", mode="roi", longer_side=128, weights=None, normalise=0.0, contrast="ring")
    sets = []
    for i in range(3):
        boxes = torch.tensor([[0.0, 0.0, 30.0 + j, 40.0] for j in range(2 + i)])
        sets.append(Candidates(features.describe(images.image(i), boxes), [len(boxes)], boxes))
    return images, features, Candidates.concat(sets)


@pytest.mark.parametrize("columns", [0.0, 2.0])
def test_a_set_with_a_prior_is_each_image_with_it(described, columns):
    images, features, candidates = described
    prior = ProductPrior(CentredBoxPrior(), Fixed([2.0, 3.0, 40.0, 50.0], 4.0))
    whole = with_prior(images, candidates, features, prior, columns, progress=False)
    assert whole.counts.tolist() == [4, 5, 6]
    first = 0
    for i in range(3):
        count, image = 2 + i, images.image(i)
        boxes = torch.cat([candidates.boxes[first : first + count], prior.boxes(image)])
        one = whole.subset([i])
        numbers = features.describe(image, boxes)
        expected = numbers if columns == 0 else torch.cat([numbers, columns * prior.columns(image, boxes)], dim=1)
        assert torch.allclose(one.features, expected, atol=1e-5)
        assert torch.equal(one.boxes, boxes)
        assert torch.allclose(one.prior, prior(image, boxes))
        alone = described_with_prior(image, "a", candidates.boxes[first : first + count], features, prior, columns)
        assert torch.allclose(alone.features, one.features, atol=1e-5)
        assert torch.equal(alone.prior, one.prior)
        first += count


def test_a_network_runs_once_per_image_whatever_is_asked_of_it(described, tmp_path, monkeypatch, caplog):
    images, _, _ = described
    options = {"mode": "roi", "longer_side": 128, "weights": None, "maps_dir": tmp_path}
    first = CNN("mobilenet_v3_small", **options)
    prior = CommonObjectPrior(CNN("mobilenet_v3_small", normalise=0.0, **options))
    plain = CNN("mobilenet_v3_small", **{**options, "maps_dir": None})
    boxes = torch.tensor([[0.0, 0.0, 40.0, 50.0]])
    runs = []
    monkeypatch.setattr(CNN, "_map", lambda self, of, run=CNN._map: runs.append(1) or run(self, of))
    numbers = [first.describe(images.image(i), boxes) for i in range(3)]
    assert len(runs) == 3
    prior.fit(TrainingImages(images, [0, 1, 2], progress=False)).box(images.image(1))
    assert torch.equal(first.describe(images.image(0), boxes), numbers[0])
    assert len(runs) == 3
    assert torch.allclose(plain.describe(images.image(0), boxes), numbers[0], rtol=1e-2, atol=1e-3)
    CNN("mobilenet_v3_small", **{**options, "longer_side": 96}).describe(images.image(0), boxes)
    assert len(runs) == 5  # another map is another file
    for file in tmp_path.glob("*.npz"):
        file.write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        assert torch.equal(first.describe(images.image(0), boxes), numbers[0])
    assert "is damaged and is computed again" in caplog.text


def test_several_questions_about_one_image_run_the_network_once_without_files_too(described, monkeypatch):
    images, features, _ = described
    runs = []
    monkeypatch.setattr(CNN, "_map", lambda self, of, run=CNN._map: runs.append(1) or run(self, of))
    image = images.image(0)
    numbers = [features.describe(image, torch.tensor([[0.0, 0.0, side, side]])) for side in (20.0, 40.0)]
    assert len(runs) == 1
    assert not torch.equal(*numbers)
    features.map(images.image(1))
    assert len(runs) == 2


def test_columns_of_mass_are_sums_over_pixels_inside_and_around(fitted):
    """The map has a cell for 4 × 4 pixels, so that the mass of boxes in whole pixels is a sum over pixels."""
    prior = CommonObjectPrior(Maps(), mass=True)
    prior.load_state_dict(fitted.state_dict())
    image, _ = scene(3)
    boxes = torch.tensor([[0.0, 0.0, 128.0, 96.0], [10.0, 20.0, 50.0, 60.0], [100.0, 3.0, 128.0, 33.0]])
    found = prior.columns(image, boxes)
    assert torch.equal(found[:, :1], fitted.columns(image, boxes))
    assert torch.allclose(prior(image, boxes), fitted(image, boxes))
    pixels = np.kron(prior.component(image).clamp(min=0).numpy(), np.ones((4, 4)))
    for (x1, y1, x2, y2), (inside, around) in zip(boxes.int().tolist(), found[:, 1:].tolist(), strict=True):
        assert inside == pytest.approx(pixels[y1:y2, x1:x2].sum() / pixels.sum(), abs=1e-4)
        w, h = 0.4 * (x2 - x1), 0.4 * (y2 - y1)
        u1, v1, u2, v2 = max(0, x1 - w), max(0, y1 - h), min(128, x2 + w), min(96, y2 + h)
        xs, ys = (np.clip(np.arange(n) + 1, a, b) - np.clip(np.arange(n), a, b) for n, a, b in ((128, u1, u2), (96, v1, v2)))
        assert around == pytest.approx(ys @ pixels @ xs / pixels.sum() - inside, abs=1e-4)  # pixels that are partly inside count so


def test_a_prior_that_knows_a_box_alone_has_no_mass():
    prior = Fixed([0.0, 0.0, 4.0, 4.0], 1.0)
    prior.mass = True
    with pytest.raises(NotImplementedError, match="Fixed knows a box alone, so that it has no mass"):
        prior.columns(Image.new("RGB", (64, 48)), BOXES)


def test_a_prior_that_suggests_nothing_weighs_the_same_and_leaves_the_candidates_alone():
    image, features = scene(0)[0], HOG()
    own, alone = CentredBoxPrior(strength=3.0), CentredBoxPrior(strength=3.0, suggests=False)
    assert torch.equal(own(image, BOXES), alone(image, BOXES))
    assert (own.fixed, alone.fixed) == (False, True)
    assert own.settings() != alone.settings()
    assert len(described_with_prior(image, "a", BOXES, features, own)) == 1
    assert described_with_prior(image, "a", BOXES, features, own).n_candidates == len(BOXES) + 1
    assert described_with_prior(image, "a", BOXES, features, alone).n_candidates == len(BOXES)
    assert ProductPrior(alone, alone).fixed
    assert not ProductPrior(alone, own).fixed
    assert not CommonObjectPrior(Maps(), suggests=False).fixed  # it learns from the training images
