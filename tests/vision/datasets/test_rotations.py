"""Digits under a latent rotation, embedded."""

import numpy as np
import pytest
import torch

from lvmdc import LSVM, LabelLoss
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import RotationSet, rotated_digits
from lvmdc.vision.datasets.rotated_digits import ROTATIONS, turned


def test_turning_is_counter_clockwise_about_the_middle():
    image = np.random.default_rng(0).random((1, 9, 9)).astype(np.float32)
    assert np.allclose(turned(image, 90)[0], np.rot90(image[0]), atol=1e-5)
    assert np.allclose(turned(np.repeat(image, 2, 0), np.array([0.0, 180.0]))[1], image[0, ::-1, ::-1], atol=1e-5)


def test_eleven_angles_from_minus_sixty_to_sixty():
    assert (len(ROTATIONS), ROTATIONS[0], ROTATIONS[5], ROTATIONS[-1]) == (11, -60, 0, 60)


def test_turned_back_by_the_true_angle_a_digit_looks_as_it_did():
    smooth = turned(np.random.default_rng(0).random((1, 21, 21)).astype(np.float32), 0)
    smooth[0] = np.outer(np.hanning(21), np.hanning(21)) * np.linspace(0.2, 1, 21)
    found = RotationSet(turned(smooth, ROTATIONS[8]), ["1"], [0], h=[8])
    rows = found.candidates().features
    upright = torch.from_numpy(smooth[0] / np.linalg.norm(smooth[0])).flatten().float()
    assert int((rows @ upright).argmax()) == 8
    assert torch.allclose(rows.norm(dim=1), torch.ones(11), atol=1e-5)


def test_drawing_has_a_place_for_every_angle():
    found = rotated_digits(per_class=2)
    width, height = found.image(1).size
    assert found.places(1).shape == (11, 4)
    assert found.places(1)[-1].tolist() == [width - height, 0.0, width, height]


@pytest.mark.parametrize("pair", [(1, 7), (2, 7), (3, 8), (8, 9)])
def test_pairs_of_digits_are_distinguished(pair):
    found = rotated_digits(pair, per_class=60)
    assert found.classes == [str(d) for d in pair]
    train, test = split_by_class(found.y, groups=found.groups)
    c = found.candidates()
    model = LSVM(LabelLoss(), C=10.0, tol=0.01).fit(c.subset(train), found.y[train])
    assert 1 - model.score(c.subset(test), found.y[test]) < 0.3


def test_digits_repeat_by_seed_and_those_that_come_again_share_a_group():
    one, two, other = (rotated_digits(seed=s, per_class=200) for s in (0, 0, 1))
    assert np.array_equal(one.images, two.images)
    assert not np.array_equal(one.images, other.images)
    assert len(set(one.groups.tolist())) < 400  # a class has fewer than 200 digits
    part = one.subset([3, 1])
    assert np.array_equal(part.images[0], one.images[3])


def test_pair_that_is_none_is_refused():
    for pair in ([1], [1, 1], [1, 12]):
        with pytest.raises(ValueError, match="pair must be two or more different digits"):
            rotated_digits(pair)
