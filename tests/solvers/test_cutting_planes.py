import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lvmdc.solvers.cutting_planes import solve_master


def value(alpha: np.ndarray, gram: np.ndarray, loss: np.ndarray, C: float) -> float:
    return float(loss @ alpha - C / 2 * alpha @ gram @ alpha)


def by_scipy(gram: np.ndarray, loss: np.ndarray, C: float) -> float:
    m = len(loss)
    result = minimize(
        lambda a: -value(a, gram, loss, C),
        np.full(m, 0.5 / m),
        jac=lambda a: C * gram @ a - loss,
        bounds=[(0, 1)] * m,
        constraints={"type": "ineq", "fun": lambda a: 1 - a.sum(), "jac": lambda a: -np.ones(m)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    alpha = np.clip(result.x, 0, 1)
    return value(alpha / max(1.0, alpha.sum()), gram, loss, C)


@given(seed=st.integers(0, 10_000), m=st.integers(1, 8), rank=st.integers(1, 8), C=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_no_feasible_alpha_that_scipy_finds_is_better(seed, m, rank, C):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(m, rank))  # rank < m: a singular Gram matrix
    gram, loss = g @ g.T, rng.uniform(0, 1, m)
    alpha = solve_master(gram, loss, C)
    assert (alpha >= 0).all()
    assert alpha.sum() <= 1 + 1e-12
    assert value(alpha, gram, loss, C) >= by_scipy(gram, loss, C) - 1e-7


@pytest.mark.parametrize("copies", [2, 20])
def test_repeated_cuts_change_nothing(copies):
    rng = np.random.default_rng(0)
    g, loss = rng.normal(size=(3, 5)), rng.uniform(0, 1, 3)
    once = value(solve_master(g @ g.T, loss, 2.0), g @ g.T, loss, 2.0)
    many, losses = np.tile(g, (copies, 1)), np.tile(loss, copies)
    assert value(solve_master(many @ many.T, losses, 2.0), many @ many.T, losses, 2.0) == pytest.approx(once, abs=1e-8)


def test_a_zero_gram_matrix_puts_all_on_the_largest_loss():
    alpha = solve_master(np.zeros((3, 3)), np.array([0.2, 0.9, 0.5]), 1.0)
    np.testing.assert_allclose(alpha, [0, 1, 0], atol=1e-6)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_large_features_make_a_small_but_exact_alpha(scale):
    # α ~ 1 / (C g²): what counts is its relative error.
    rng = np.random.default_rng(1)
    g, loss = np.eye(5, 8) + 0.1 * rng.normal(size=(5, 8)), rng.uniform(0.5, 1, 5)
    free = np.linalg.solve(g @ g.T, loss)  # the maximum without constraints, which holds them here
    assert (free > 0).all()
    alpha = solve_master(scale * g @ g.T, loss, 1.0)
    np.testing.assert_allclose(alpha * scale, free, rtol=1e-3)
