import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_images

from lvmdc.vision.datasets.digits import _grey, handwritten, photograph_crop


def test_digits_and_photographs_are_those_of_scikit_learn():
    images, y = handwritten()
    data = load_digits()
    assert np.array_equal(images * 16, data.images)
    assert np.array_equal(y, data.target)
    for grey, photograph in zip(_grey(), load_sample_images().images, strict=True):
        assert np.abs(grey * 255 - photograph @ [0.299, 0.587, 0.114]).max() < 1


def test_a_crop_is_a_piece_of_a_photograph():
    crop = photograph_crop(np.random.default_rng(3), 427)  # the full height: only the left edge is free
    greys = [p @ np.array([0.299, 0.587, 0.114]) / 255 for p in load_sample_images().images]
    assert any(np.abs(grey[:, x : x + 427] - crop).max() < 0.01 for grey in greys for x in range(640 - 427 + 1))


@pytest.mark.parametrize("side", [0, 428])
def test_a_crop_larger_than_the_photographs_is_refused(side):
    with pytest.raises(ValueError, match="canvas must lie in"):
        photograph_crop(np.random.default_rng(0), side)
