"""The solvers of ½‖w‖² + C·R(w): the bundle for any convex R, L-BFGS for smooth ones."""

import math

import numpy as np
import pytest
import torch
from learners.problems import SharedWeights, delta_at, expected_loss, problem, random_h, random_posterior, structural_svm
from scipy.optimize import minimize

from lvmdc import Candidates
from lvmdc.feature_maps import ClassBlocks
from lvmdc.solvers import cutting_planes as bundle_module
from lvmdc.solvers.cutting_planes import bundle
from lvmdc.solvers.lbfgs import quasi_newton
from lvmdc.solvers.likelihood import ExpectedLikelihood
from lvmdc.solvers.linear import Regularised, level, lower
from lvmdc.solvers.min_entropy import LinearisedSlack, MinEntropySlack
from lvmdc.solvers.w_block import LinearScores


def likelihood(p, C, seed=0, joint=None):
    space = LinearScores(p.candidates, ClassBlocks(p.n_classes) if joint is None else joint)
    return Regularised(space, ExpectedLikelihood(p.candidates, p.y, random_posterior(p, seed)), C)


def hinge(p, C, alpha, h):
    """Linearised at w = 0, h the first one."""
    cost, unknown = 1.0 - torch.eye(p.n_classes, dtype=torch.float64)[p.y], torch.full_like(p.y, -1)
    space = LinearScores(p.candidates, ClassBlocks(p.n_classes))
    risk = LinearisedSlack(MinEntropySlack(p.candidates, p.y, unknown, cost, alpha), space.origin().scores, delta_at(p, h))
    return Regularised(space, risk, C)


def by_scipy(problem_):
    """The optimum of a smooth problem by another L-BFGS."""
    space = problem_.space

    def value(w):
        point = space.at(torch.as_tensor(w))
        return problem_.value(point), problem_.gradient(point).numpy()

    found = minimize(value, np.zeros(space.size), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10})
    return float(found.fun)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(2))
def test_both_solvers_find_the_optimum_of_a_smooth_problem(C, seed):
    p = problem(seed, n=10)
    optimum = by_scipy(likelihood(p, C, seed))
    for solve in (quasi_newton, bundle):
        ours = likelihood(p, C, seed)
        solution = solve(ours, ours.space.origin(), tol=1e-7)
        assert -1e-9 * C <= solution.value - optimum <= solution.gap + 1e-9 * C, solve.__name__
        assert solution.gap <= max(1e-7, 2e-9 * optimum)
        assert solution.value == pytest.approx(ours.value(ours.space.at(solution.point.w)), abs=1e-9 * C)


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_bundle_finds_the_optimum_of_the_full_quadratic_program(C, seed):
    p = problem(seed)
    h = random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss("label", p, delta_at(p, h)), h, C)
    ours = hinge(p, C, math.inf, h)
    assert bundle(ours, ours.space.origin(), tol=1e-8).value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 3.0, math.inf])
def test_the_gap_bounds_the_distance_to_the_optimum(alpha):
    p = problem(1)
    h = random_h(p, 1)
    ours = hinge(p, 3.0, alpha, h)
    optimum = bundle(ours, ours.space.origin(), tol=1e-8).value
    for tol in (1.0, 0.1, 1e-3):
        solution = bundle(ours, ours.space.origin(), tol=tol)
        assert -1e-8 <= solution.value - optimum <= solution.gap + 1e-8
        assert solution.gap <= tol


@pytest.mark.parametrize("alpha", [1.0, 20.0, math.inf])
def test_a_rough_line_search_does_not_stall_the_bundle(alpha, monkeypatch):
    monkeypatch.setattr(bundle_module, "FLAT", 0.9)
    for seed in range(3):
        p = problem(seed, n=12, most=5)
        ours = hinge(p, 10.0, alpha, random_h(p, seed))
        assert bundle(ours, ours.space.origin(), tol=1e-3).gap <= 1e-3
        assert ours.space.passes < 300


def test_the_gap_is_a_bound_where_the_passes_run_out():
    p = problem(1)
    for ours, solve in ((hinge(p, 30.0, 2.0, random_h(p, 1)), bundle), (likelihood(p, 30.0), quasi_newton)):
        optimum = solve(ours, ours.space.origin(), tol=1e-8).value
        solution = solve(ours, ours.space.origin(), tol=0.0, max_iter=3)
        assert solution.gap > 1e-3
        assert 0 < solution.value - optimum <= solution.gap


@pytest.mark.parametrize("seed", range(2))
def test_they_never_end_above_where_they_started(seed):
    p = problem(seed)
    for ours, solve in ((hinge(p, 2.0, 2.0, random_h(p, seed)), bundle), (likelihood(p, 2.0), quasi_newton)):
        start = ours.space.at(torch.as_tensor(np.random.default_rng(seed).normal(size=ours.space.size)))
        for tol in (1e9, 1.0, 0.01):
            assert solve(ours, start, tol).value <= ours.value(start)


def test_a_share_of_the_gain_ends_them_early():
    p = problem(0, n=10)
    for ours, solve in ((hinge(p, 10.0, 2.0, random_h(p, 0)), bundle), (likelihood(p, 10.0), quasi_newton)):
        origin = ours.space.origin()
        rough, exact = solve(ours, origin, 0.0, share=0.5), solve(ours, origin, 1e-9)
        assert rough.gap <= 0.5 * (ours.value(origin) - rough.value)
        assert exact.value < rough.value


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("own", [False, True])
def test_the_transpose_is_that_of_the_scores(dtype, own):
    p = problem(2, n=9, most=5, dtype=dtype)
    joint = SharedWeights(3) if own else ClassBlocks(3)
    space = LinearScores(p.candidates.to(dtype=torch.float64) if own else p.candidates, joint)
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(space.size, generator=generator, dtype=torch.float64)
    table = space.at(w).scores
    weights = torch.randn(table.shape, generator=generator, dtype=torch.float64).masked_fill(table == -torch.inf, 0)
    one = float((weights * table.double().masked_fill(table == -torch.inf, 0)).sum())
    assert one == pytest.approx(float(w @ space.transpose(weights)), rel=1e-4 if dtype != torch.float64 else 1e-12)
    assert space.passes == 2


def test_the_transpose_works_by_chunks(monkeypatch):
    p = problem(2, n=9, most=5)
    weights = torch.randn(p.candidates.n_candidates, 3, dtype=torch.float64)
    whole = LinearScores(p.candidates, ClassBlocks(3)).transpose(weights)
    monkeypatch.setattr("lvmdc.storage.mapped.CHUNK_NUMBERS", 2 * p.candidates.n_features)
    torch.testing.assert_close(LinearScores(p.candidates, ClassBlocks(3)).transpose(weights), whole)


def test_they_end_at_once_where_all_features_are_zero():
    p = problem(0, dtype=torch.float32)
    zero = Candidates(torch.zeros_like(p.candidates.features), p.candidates.counts)
    p.candidates = zero
    for ours, solve in ((hinge(p, 5.0, 2.0, random_h(p, 0)), bundle), (likelihood(p, 5.0), quasi_newton)):
        solution = solve(ours, ours.space.origin(), tol=0.0)
        assert float(solution.point.w.abs().max()) == 0
        assert ours.space.passes < 10


@pytest.mark.parametrize("place", [1e-3, 0.4, 1.0, 7.3, 1e4])
def test_the_line_search_finds_where_a_convex_function_turns(place):
    step = level(lambda t: math.atan(t - place), flat=1e-3)
    assert step == pytest.approx(place, rel=0.5)
    assert level(lambda t: t - place, flat=1e-3, limit=1.0) == pytest.approx(min(place, 1.0), rel=1e-2)


def test_a_step_lowers_any_function_or_is_zero():
    assert lower(lambda t: abs(t - 5.5), 5.5) == 4.0
    assert lower(lambda t: abs(t - 5.5), 5.5, expand=False) == 1.0
    assert lower(lambda t: (t - 0.01) ** 2, 1e-4) == pytest.approx(0.01, abs=0.0101)
    assert lower(lambda t: math.nan, 0.0) == 0.0
