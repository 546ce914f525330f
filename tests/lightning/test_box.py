"""A concave quadratic over a box: against an independent solver, and at its edges."""

import numpy as np
import pytest
from scipy.optimize import minimize

from lvmdc.lightning.dual_steps import box_ascent


def problem(seed, m=12, rank=5):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(m, rank))
    return rng.normal(size=m) + 0.5, vectors @ vectors.T, rng.uniform(0, 1, m)


def value(t, slopes, gram):
    return slopes @ t - 0.5 * t @ gram @ t


@pytest.mark.parametrize("rank", [1, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_it_comes_close_to_the_best_of_the_box(seed, rank):
    slopes, gram, most = problem(seed, rank=rank)
    found = box_ascent(slopes, gram, most)
    best = minimize(lambda t: -value(t, slopes, gram), np.zeros(len(most)), bounds=[(0, m) for m in most], method="L-BFGS-B")
    assert found.min() >= 0
    assert (found <= most).all()
    assert value(found, slopes, gram) == pytest.approx(-best.fun, rel=0.02)
    assert value(found, slopes, gram) <= -best.fun + 1e-6


def test_one_number_goes_to_its_optimum_or_to_the_edge():
    one = np.ones((1, 1))
    assert box_ascent(np.array([0.5]), one, np.array([1.0])) == [0.5]
    assert box_ascent(np.array([2.0]), one, np.array([1.0])) == [1.0]
    assert box_ascent(np.array([-1.0]), one, np.array([1.0])) == [0.0]


def test_without_curvature_it_goes_to_the_edge_where_that_gains():
    assert box_ascent(np.array([1.0, 0.0]), np.zeros((2, 2)), np.array([0.25, 0.25])).tolist() == [0.25, 0.0]


def test_what_may_not_move_stays():
    slopes, gram, most = problem(0)
    most[::2] = 0.0
    assert (box_ascent(slopes, gram, most)[::2] == 0).all()
