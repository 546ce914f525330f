import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.candidates import Candidates
from lvmdc.priors import CentrePrior, ObjectnessPrior, Prior, ProductPrior
from lvmdc.priors.objectness import CENTRE, otsu, salience
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.metrics import true_candidate
from lvmdc.vision.proposals import WindowGrid


def random_image(seed, width=40, height=30):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def random_boxes(seed, m, width, height):
    rng = np.random.default_rng(seed)
    x, y = (np.sort(rng.uniform(0, side, (m, 2)), axis=1) for side in (width, height))
    return torch.tensor(np.stack([x[:, 0], y[:, 0], x[:, 1] + 1, y[:, 1] + 1], axis=1), dtype=torch.float32)


def connected(mask):
    """Regions of 8-connected pixels, by flood fill."""
    left, regions = set(zip(*np.nonzero(mask), strict=True)), []
    while left:
        stack, region = [left.pop()], []
        while stack:
            y, x = stack.pop()
            region.append((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            stack += near
        regions.append(region)
    return regions


@pytest.mark.parametrize("seed", range(3))
def test_objectness_is_its_formula_pixel_by_pixel(seed):
    image, boxes = random_image(seed), random_boxes(seed, 6, 39, 29)
    s = salience(np.asarray(image, np.float64))
    regions = connected(s > otsu(s))
    mass = np.array([sum(s[at] for at in region) for region in regions])
    expected = []
    for x1, y1, x2, y2 in boxes.double().tolist():
        total = -2 * (x2 - x1) * (y2 - y1) / (40 * 30)
        for region, of_region in zip(regions, mass, strict=True):
            f = g = 0.0
            for y, x in region:
                u, v = (x + 0.5 - (x1 + x2) / 2) / (x2 - x1), (y + 0.5 - (y1 + y2) / 2) / (y2 - y1)
                f += s[y, x] / of_region * (abs(u) <= 0.5 and abs(v) <= 0.5)
                g += s[y, x] / of_region * np.exp(-(u * u + v * v) / (2 * CENTRE**2))
            total += of_region**2 / (mass**2).sum() * (f * f + g)
        expected.append(2.5 * total)
    np.testing.assert_allclose(ObjectnessPrior(2.5)(image, boxes), expected, rtol=1e-4, atol=1e-5)


def test_objectness_does_not_depend_on_which_colour_is_the_object():
    image, boxes = random_image(0), random_boxes(1, 5, 39, 29)
    inverse = Image.fromarray(255 - np.asarray(image))
    torch.testing.assert_close(ObjectnessPrior()(image, boxes), ObjectnessPrior()(inverse, boxes))


def test_objectness_of_an_image_of_one_colour_knows_only_areas():
    boxes = torch.tensor([[0.0, 0, 10, 10], [5, 5, 15, 15]])
    assert ObjectnessPrior(3.0)(Image.new("RGB", (20, 20), "red"), boxes).tolist() == pytest.approx([-1.5, -1.5])


def test_large_images_are_scaled_with_their_boxes():
    pixels = np.zeros((100, 120, 3), np.uint8)
    pixels[30:60, 40:70] = 255
    boxes = torch.tensor([[30.0, 20, 80, 70], [0, 0, 50, 50], [60, 40, 110, 90]])
    large = Image.fromarray(pixels).resize((480, 400), Image.Resampling.NEAREST)
    torch.testing.assert_close(ObjectnessPrior()(large, 4 * boxes), ObjectnessPrior()(Image.fromarray(pixels), boxes), atol=0.1, rtol=0.1)


def test_objectness_finds_digits_better_than_chance():
    images = cluttered_digits(seed=11, per_class=5)
    boxes = WindowGrid().boxes(images.image(0), "a")
    candidates = Candidates(torch.zeros(25 * len(images), 1), [25] * len(images), boxes.repeat(len(images), 1))
    h, _ = true_candidate(candidates, images.boxes)
    p = torch.stack([ObjectnessPrior()(images.image(i), boxes).softmax(dim=0) for i in range(len(images))])
    assert float(p.gather(1, h.cpu()[:, None]).mean()) > 2 / 25


def test_centre_prior_is_highest_for_the_expected_box_and_symmetric():
    image, prior = Image.new("RGB", (100, 50)), CentrePrior(share=0.5)
    best = torch.tensor([[25.0, 12.5, 75.0, 37.5]])
    assert prior(image, best).tolist() == [0.0]
    boxes = random_boxes(2, 20, 99, 49)
    assert bool((prior(image, boxes) <= 0).all())
    mirrored = torch.stack([100 - boxes[:, 2], boxes[:, 1], 100 - boxes[:, 0], boxes[:, 3]], dim=1)
    torch.testing.assert_close(prior(image, mirrored), prior(image, boxes), atol=1e-4, rtol=1e-4)


def test_product_adds_log_weights_and_strength_scales_them():
    image, boxes = random_image(3), random_boxes(3, 4, 39, 29)
    one, other = CentrePrior(), ObjectnessPrior(3.0)
    torch.testing.assert_close(ProductPrior(one, other)(image, boxes), one(image, boxes) + other(image, boxes))
    torch.testing.assert_close(ObjectnessPrior(6.0)(image, boxes), 2 * other(image, boxes))
    assert bool((ObjectnessPrior(0.0)(image, boxes) == 0).all())


def test_what_is_wrong_is_refused():
    class Short(Prior):
        def log_weights(self, image, boxes):
            return torch.zeros(1)

        def settings(self):
            return {}

    with pytest.raises(ValueError, match="must give 2 finite log weights"):
        Short()(random_image(0), random_boxes(0, 2, 39, 29))
    with pytest.raises(ValueError, match=r"shape \(m, 4\)"):
        CentrePrior()(random_image(0), torch.zeros(4))
    with pytest.raises(ValueError, match="at least one prior"):
        ProductPrior()
    with pytest.raises(ValueError, match="strength"):
        ObjectnessPrior(-1.0)
    with pytest.raises(ValueError, match="spread"):
        CentrePrior(spread=0.0)
