import numpy as np
import pytest
import torch
from learners.problems import (
    LOSSES,
    SharedWeights,
    delta_at,
    expected_loss,
    problem,
    random_h,
    random_posterior,
    shared_weights,
    structural_svm,
)

from lvmdc.joint import ClassBlocks
from lvmdc.losses import BoundLoss
from lvmdc.solvers import OneSlack, StructuredHinge
from lvmdc.solvers.one_slack import Solution


def solve(p, name, posterior, h, C, solver=None, start=None, tol=1e-8) -> tuple[Solution, OneSlack]:
    """(14) by the cutting plane."""
    if solver is None:
        solver = OneSlack(StructuredHinge(p.candidates, p.y, ClassBlocks(p.n_classes), C))
    hinge = solver.hinge
    losses = BoundLoss(LOSSES[name], p.candidates, p.y, p.n_classes).expected_loss(posterior)
    truth = hinge.mean_psi(p.y, p.candidates.offsets + h)
    return solver.solve(losses, truth, start or hinge.origin(), tol), solver


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_optimum_of_the_full_quadratic_program(name, C, seed):
    p = problem(seed)
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
    solution, _ = solve(p, name, posterior, h, C)
    assert solution.value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("name", ["overlap", "function"])
@pytest.mark.parametrize("seed", range(3))
def test_a_working_set_of_another_h_and_posterior_still_finds_the_optimum(name, seed):
    p, C = problem(seed, n=10), 5.0
    solver = start = None
    for change in range(4):
        posterior, h = random_posterior(p, 10 * seed + change), random_h(p, 20 * seed + change)
        solution, solver = solve(p, name, posterior, h, C, solver, start)
        start = solution.point
        optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
        assert solution.value == pytest.approx(optimum, abs=1e-6)


def test_it_is_right_after_cuts_were_dropped():
    p, C, name = problem(4, n=14, d=6), 20.0, "zero_one"
    solver = start = None
    added = 0
    for change in range(3):
        posterior, h = random_posterior(p, change), random_h(p, change)
        before = solver.hinge.passes if solver else 0
        solution, solver = solve(p, name, posterior, h, C, solver, start)
        added, start = added + solver.hinge.passes - before, solution.point
        optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
        assert solution.value == pytest.approx(optimum, abs=1e-6)
    assert len(solver.cuts) < added  # some were dropped


@pytest.mark.parametrize("tol", [1.0, 0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("seed", range(4))
def test_the_reported_gap_bounds_the_distance_to_the_optimum(tol, seed):
    p, C = problem(seed), 3.0
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    solution, _ = solve(p, "overlap", posterior, h, C, tol=tol)
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9
    assert solution.gap <= tol + 1e-9


def test_the_gap_is_a_bound_where_the_passes_run_out():
    p, C = problem(1), 30.0
    posterior, h = random_posterior(p, 1), random_h(p, 1)
    optimum, _ = structural_svm(p, expected_loss("zero_one", p, posterior), h, C)
    solver = OneSlack(StructuredHinge(p.candidates, p.y, ClassBlocks(3), C), max_iter=3)
    solution, _ = solve(p, "zero_one", posterior, h, C, solver)
    assert solution.gap > 1e-3
    assert solution.value - optimum <= solution.gap + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_it_never_ends_above_where_it_started(seed):
    p, C = problem(seed), 2.0
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    losses = BoundLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(random_posterior(p, seed))
    truth = hinge.mean_psi(p.y, p.candidates.offsets + random_h(p, seed))
    start = hinge.at(torch.from_numpy(np.random.default_rng(seed).normal(size=hinge.size)))
    for tol in (1e9, 10.0, 0.1):
        solution = OneSlack(hinge).solve(losses, truth, start, tol)
        assert solution.value <= hinge.convex_value(start, losses, truth)
        assert solution.value == pytest.approx(hinge.convex_value(solution.point, losses, truth), abs=1e-9)


def test_scores_of_the_solution_are_those_of_its_w():
    p = problem(2)
    solution, solver = solve(p, "overlap", random_posterior(p, 2), random_h(p, 2), 10.0)
    torch.testing.assert_close(solution.point.scores, solver.hinge.at(solution.point.w).scores, atol=1e-9, rtol=0)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_shared_weights_and_latent_sets_that_depend_on_the_class(C):
    p = problem(3, n=9, most=5)
    joint = SharedWeights(3)
    lacks = joint.lacks(p.candidates).numpy()
    h = torch.zeros(len(p.y), dtype=torch.long)  # every class has its first candidate
    losses = expected_loss("overlap", p, delta_at(p, h))
    optimum, w = structural_svm(p, losses, h, C, shared_weights(p), lacks)
    hinge = StructuredHinge(p.candidates, p.y, joint, C)
    truth = hinge.mean_psi(p.y, p.candidates.offsets + h)
    solution = OneSlack(hinge).solve(torch.from_numpy(losses), truth, hinge.origin(), 1e-9)
    assert solution.value == pytest.approx(optimum, abs=1e-6)
    np.testing.assert_allclose(solution.point.w.numpy(), w, atol=2e-3)
    assert bool((solution.point.scores == -torch.inf)[torch.from_numpy(lacks)].all())


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("scale", [1e-2, 255.0])
def test_neither_large_features_nor_a_large_c_keep_it_from_the_tolerance(scale, C):
    p = problem(6, n=12, d=6, signal=3)
    p.candidates.features.mul_(scale)
    posterior, h = random_posterior(p, 6), random_h(p, 6)
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    solution, solver = solve(p, "overlap", posterior, h, C, tol=1e-4 * C)
    assert -1e-8 * optimum <= solution.value - optimum <= solution.gap + 1e-8 * optimum
    assert solution.gap <= 1e-4 * C
    assert solver.hinge.passes < 200


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1.0, 1e4])
def test_single_precision_ends_where_no_w_helps(C):
    # Every feature is zero: w = 0 is optimal, and there is nothing to gain but rounding.
    p = problem(0, n=30, dtype=torch.float32)
    p.candidates.features.zero_()
    posterior = random_posterior(p, 0).float()
    solution, solver = solve(p, "overlap", posterior, random_h(p, 0), C, tol=0.0)
    assert solution.value == pytest.approx(C * float(expected_value_at_origin(p, posterior)), rel=1e-5)
    assert solver.hinge.passes < 10


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1.0])
def test_single_precision_ends_where_hardly_any_w_helps(C):
    p = problem(0, n=30, d=8, most=7, dtype=torch.float32, signal=0.5)
    solution, solver = solve(p, "overlap", random_posterior(p, 0).float(), random_h(p, 0), C, tol=0.0)
    assert solver.hinge.passes < 200
    assert solution.gap <= 1e-6 * solution.value


def expected_value_at_origin(p, posterior) -> float:
    losses = expected_loss("overlap", p, posterior)
    return np.mean([losses[p.of(i).start : p.of(i).stop].max() for i in range(len(p.y))])
