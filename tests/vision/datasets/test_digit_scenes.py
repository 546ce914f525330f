import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from lvmdc.vision.datasets import cluttered_digits, digit_scenes
from lvmdc.vision.datasets.digits import handwritten
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.metrics import box_recall
from lvmdc.vision.proposals import WindowGrid


@pytest.fixture(scope="module")
def scenes():
    return digit_scenes()


def test_the_defaults_hold_one_to_four_digits_that_do_not_overlap(scenes):
    truth = scenes.truth
    assert len(scenes) == 200
    assert set(torch.bincount(truth.image).tolist()) == {1, 2, 3, 4}
    for i in range(len(scenes)):
        boxes = truth.of_image(i).box
        assert float((box_iou(boxes, boxes) - torch.eye(len(boxes))).abs().max()) == 0
    assert float(truth.box.min()) >= 0
    assert float(truth.box.max()) <= 96
    assert set((truth.box[:, 2] - truth.box[:, 0]).tolist()) <= set(range(28, 36))


def test_labels_say_which_digits_are_shown_and_no_more(scenes):
    for i in range(len(scenes)):
        shown = set(scenes.truth.of_image(i).label.tolist())
        assert scenes.labels[i].tolist() == [1 if k in shown else -1 for k in range(6)]
    assert any(len(scenes.truth.of_image(i)) > len(scenes.shown(i)) for i in range(len(scenes)))  # a class that comes twice
    assert bool(((scenes.labels == 1).float().mean(dim=0) < 0.5).all())


def test_digits_lie_in_their_boxes_without_clutter():
    scenes, (strokes, labels) = digit_scenes(n_images=4, background=0.0, fragments=0, noise=0.0), handwritten()
    for i in range(4):
        rest = scenes.sources[i].copy()
        for (x1, y1, x2, y2), k in zip(scenes.truth.of_image(i).box.long().tolist(), scenes.truth.of_image(i).label, strict=True):
            small = np.asarray(scenes.image(i).convert("L").crop((x1, y1, x2, y2)).resize((8, 8), 4), float).ravel()
            like = [np.corrcoef(small, s.ravel())[0, 1] for s in strokes]
            assert max(like) > 0.9
            assert labels[int(np.argmax(like))] == int(scenes.classes[k])
            rest[y1:y2, x1:x2] = 0
        assert not rest.any()


def test_a_larger_set_begins_with_the_smaller_one_and_another_seed_gives_others(scenes):
    small, other = digit_scenes(n_images=5), digit_scenes(n_images=5, seed=1)
    for i in range(5):
        assert np.array_equal(small.sources[i], scenes.sources[i])
        assert not np.array_equal(small.sources[i], other.sources[i])


def test_windows_find_nearly_every_digit(scenes):
    part = scenes.subset(range(20))
    candidates = build_candidates(part, WindowGrid(), HOG(), progress=False)
    assert candidates.counts.tolist() == [81] * 20
    assert box_recall(candidates, part.truth) == 1.0


def test_the_embedded_digits_of_one_per_image_did_not_change():
    assert cluttered_digits(per_class=2).digest(3) == "7262a3adb8b0e4a1b212965defa5558dc9339027fcf91d0b6c9ef60c6f7a518f"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"digits": (1,)}, "digits must be two or more"),
        ({"n_images": 0}, "n_images must be at least 1"),
        ({"n_images": 1000}, "are used up after"),
        ({"most": 0}, "most must be at least 1"),
        ({"digit_size": (28, 97)}, "digit_size must be"),
        ({"fragments": -1}, "fragments must not be negative"),
        ({"fragment_size": 29}, "fragment_size must lie in"),
        ({"canvas": 500}, "canvas must lie in"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        digit_scenes(**({"n_images": 1} | changed))


def test_a_subset_takes_its_boxes_along(scenes):
    part = scenes.subset([7, 3])
    assert part.names == ["scene 7", "scene 3"]
    assert torch.equal(part.truth.of_image(1).box, scenes.truth.of_image(3).box)
    assert torch.equal(part.labels, scenes.labels[[7, 3]])


def test_parts_are_disjoint_and_whole_and_folds_differ(scenes):
    train, test = scenes.split()
    assert len(train) == 120
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(200))
    assert not torch.equal(train, scenes.split(fold=1)[0])
