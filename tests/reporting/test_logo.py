"""Sequence logos."""

import numpy as np
import pytest

from lvmdc.reporting.logo import COLOURS, LEFT, TOP, draw_logo, information


def test_information_is_two_bits_less_the_entropy():
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    by_hand = [2 - sum(-q * np.log2(q) for q in place) for place in p]
    assert np.allclose(information(p), by_hand)


def height(image: np.ndarray, letter: int, place: int, column: int) -> int:
    """Pixels from the top to the foot of a letter's colour in a column."""
    part = image[TOP:-20, LEFT + column * place + 2 : LEFT + column * (place + 1) - 2].astype(int)
    rows = np.flatnonzero((np.abs(part - COLOURS[letter]).sum(axis=2) < 30).any(axis=1))
    return int(rows.max() - rows.min() + 1) if len(rows) else 0


def test_letters_are_as_high_as_their_share_of_the_information():
    p = np.array([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4, [0, 0.1, 0.1, 0.8]])
    image = np.asarray(draw_logo(p, column=40, height=200))
    bits = information(p)
    assert height(image, 0, 0, 40) == pytest.approx(200, abs=3)
    assert height(image, 1, 1, 40) == pytest.approx(50, abs=3)
    assert height(image, 3, 3, 40) == pytest.approx(100 * bits[3] * 0.8, abs=4)
    assert [height(image, letter, 2, 40) for letter in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize("wrong", [[[0.5, 0.5]], [[0.5, 0.2, 0.1, 0.1]], [[1.5, -0.5, 0, 0]], [[np.nan, 0, 0, 1]]])
def test_what_are_no_probabilities_is_refused(wrong):
    with pytest.raises(ValueError, match="probabilities must"):
        draw_logo(wrong)
