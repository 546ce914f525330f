"""Sequence logos."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from lvmdc.reporting.logo import LEFT, LETTERS, TOP, draw_logo, information


def test_information_is_two_bits_less_the_entropy():
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    by_hand = [2 - sum(-q * np.log2(q) for q in position) for position in p]
    assert np.allclose(information(p), by_hand)


def height(image: np.ndarray, letter: str, position: int, column: int) -> int:
    """Pixels from the top to the foot of a letter's colour in a column."""
    part = image[TOP - 1 : -20, LEFT + column * position + 2 : LEFT + column * (position + 1) - 2].astype(int)
    rows = np.flatnonzero((np.abs(part - 255 * np.array(to_rgb(LETTERS[letter]))).sum(axis=2) < 60).any(axis=1))
    return int(rows.max() - rows.min() + 1) if len(rows) else 0


def test_letters_are_as_high_as_their_share_of_the_information():
    p = np.array([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4, [0, 0.1, 0.1, 0.8]])
    image = np.asarray(draw_logo(p, column=40, height=200))
    bits = information(p)
    assert height(image, "A", 0, 40) == pytest.approx(200, abs=3)
    assert height(image, "C", 1, 40) == pytest.approx(50, abs=3)
    assert height(image, "T", 3, 40) == pytest.approx(100 * bits[3] * 0.8, abs=4)
    assert [height(image, letter, 2, 40) for letter in LETTERS] == [0, 0, 0, 0]


@pytest.mark.parametrize("wrong", [[[0.5, 0.5]], [[0.5, 0.2, 0.1, 0.1]], [[1.5, -0.5, 0, 0]], [[np.nan, 0, 0, 1]]])
def test_numbers_that_are_no_probabilities_are_refused(wrong):
    with pytest.raises(ValueError, match="probabilities must"):
        draw_logo(wrong)
