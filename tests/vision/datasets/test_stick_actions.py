import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import stick_actions
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.metrics import class_error, recall, true_candidate
from lvmdc.vision.proposals import JitteredBoxes


def test_the_same_seed_gives_the_same_images_and_another_gives_others():
    one, two, other = (stick_actions(seed=s, per_class=1) for s in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(one.sources, two.sources, strict=True))
    assert torch.equal(one.boxes, two.boxes)
    assert not any(np.array_equal(a, b) for a, b in zip(one.sources, other.sources, strict=True))


def test_a_larger_set_begins_with_the_smaller_one():
    small, large = stick_actions(per_class=1), stick_actions(per_class=2)
    for k in range(10):
        assert np.array_equal(small.sources[k], large.sources[2 * k])


def test_the_acting_person_is_the_first_object_and_all_lie_in_the_image():
    images = stick_actions(per_class=3)
    for box, objects in zip(images.boxes, images.objects, strict=True):
        assert torch.equal(objects[0], box)
        assert len(objects) == 3
        assert bool((objects >= 0).all())
        assert bool((objects <= 128).all())


def test_the_true_box_is_tight_about_a_person_without_props():
    images = stick_actions(per_class=4, bystanders=0, clutter=0, background=0.0, noise=0.0)
    walking = images.subset(images.y == images.classes.index("walking"))
    for i in range(len(walking)):
        rows, columns = np.nonzero(walking.sources[i])
        ink = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.abs(np.array(ink) - walking.boxes[i].numpy()).max() < 2


@pytest.mark.slow
def test_the_true_box_tells_the_action_and_a_random_one_does_not():
    images = stick_actions(per_class=24)
    candidates = build_candidates(images, JitteredBoxes.around(images), HOG(size=(48, 64)), progress=False)
    assert candidates.counts.tolist() == [20] * 240
    truth, overlap = true_candidate(candidates, images.boxes)
    assert recall(candidates, images.boxes, iou=0.6) == 1.0
    assert 0.7 < float(overlap.mean()) < 0.99
    assert len(truth.unique()) == 20  # the place in the list tells nothing
    chance = torch.from_numpy(np.random.default_rng(0).integers(0, 20, 240))
    train, test = split_by_class(images.y)
    errors = []
    for h in (truth, chance):
        x = candidates.select(h).features.numpy()
        model = LogisticRegression(max_iter=200).fit(x[train], images.y[train])
        errors.append(class_error(images.y[test], model.predict(x[test])))
    assert errors[0] < 0.2
    assert errors[1] > 0.7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"per_class": 0}, "per_class"),
        ({"bystanders": -1}, "bystanders"),
        ({"figure_size": (50, 100)}, "figure_size must be"),
        ({"canvas": 500}, "canvas"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        stick_actions(**({"per_class": 1} | changed))
