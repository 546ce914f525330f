import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.metrics import class_error, recall, true_candidate
from lvmdc.vision.proposals import WindowGrid


@pytest.fixture(scope="module")
def images():
    return cluttered_digits()


def test_the_defaults_are_the_working_range(images):
    assert images.classes == ["0", "2", "3", "4", "6", "7"]
    assert torch.bincount(images.y).tolist() == [45] * 6
    assert {images.image(i).size for i in range(0, 270, 30)} == {(64, 64)}
    sides = images.boxes[:, 2:] - images.boxes[:, :2]
    assert torch.equal(sides[:, 0], sides[:, 1])
    assert set(sides[:, 0].tolist()) == set(range(28, 36))
    assert bool((images.boxes >= 0).all())
    assert bool((images.boxes <= 64).all())


def test_the_same_seed_gives_the_same_images_and_another_gives_others():
    one, two, other = (cluttered_digits(seed=s, per_class=3) for s in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(one.sources, two.sources, strict=True))
    assert torch.equal(one.boxes, two.boxes)
    assert not any(np.array_equal(a, b) for a, b in zip(one.sources, other.sources, strict=True))


def test_a_larger_set_begins_with_the_smaller_one(images):
    small = cluttered_digits(per_class=2)
    for k in range(6):
        assert np.array_equal(small.sources[2 * k + 1], images.sources[45 * k + 1])


def test_the_digit_is_in_its_box_without_clutter():
    images = cluttered_digits(per_class=2, background=0.0, fragments=0, noise=0.0)
    strokes = load_digits()
    for i in range(len(images)):
        x1, y1, x2, y2 = images.boxes[i].long().tolist()
        outside = images.sources[i].copy()
        outside[y1:y2, x1:x2] = 0
        assert not outside.any()
        assert strokes.target[images.groups[i]] == int(images.classes[images.y[i]])
        small = np.asarray(images.image(i).convert("L").crop((x1, y1, x2, y2)).resize((8, 8), 4), float)  # 4: box filter
        assert np.corrcoef(small.ravel(), strokes.images[images.groups[i]].ravel())[0, 1] > 0.9


def test_a_digit_that_comes_twice_is_one_group():
    images = cluttered_digits(per_class=200, digits=(1, 7))
    assert len(images) == 400
    assert len(set(images.groups[images.y == 0].tolist())) == int((load_digits().target == 1).sum())


def test_the_true_window_tells_the_class_and_a_random_one_does_not(images):
    candidates = build_candidates(images, WindowGrid(), HOG(), progress=False)
    assert candidates.counts.tolist() == [25] * 270
    assert recall(candidates, images.boxes) == 1.0
    truth, _ = true_candidate(candidates, images.boxes)
    chance = torch.from_numpy(np.random.default_rng(0).integers(0, 25, 270))
    train, test = split_by_class(images.y, groups=images.groups)
    errors = []
    for h in (truth, chance):
        x = candidates.select(h).features.numpy()
        model = LogisticRegression(max_iter=500).fit(x[train], images.y[train])
        errors.append(class_error(images.y[test], model.predict(x[test])))
    assert errors[0] < 0.2
    assert errors[1] > 0.6


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"digits": (1, 1)}, "digits must be different"),
        ({"digits": (3, 10)}, "digits must be different"),
        ({"per_class": 0}, "per_class must be at least 1"),
        ({"digit_size": (28, 65)}, "digit_size must be"),
        ({"fragment_size": 29}, "fragment_size must lie in"),
        ({"fragments": -1}, "fragments must not be negative"),
        ({"canvas": 500}, "canvas must lie in"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        cluttered_digits(**({"per_class": 1} | changed))
