import numpy as np
import pytest
import torch
from learners.problems import (
    LOSSES,
    Problem,
    SharedWeights,
    delta_at,
    expected_loss,
    problem,
    random_h,
    random_posterior,
    shared_weights,
    structural_svm,
)

from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import ImputedLatents, NSlack, OneSlack, StructuredHinge

SOLVERS = {"one_slack": OneSlack, "n_slack": NSlack}


@pytest.fixture(params=list(SOLVERS))
def Solver(request):
    """Each solver of (14) in turn: all must find the same."""
    return SOLVERS[request.param]


def solve(p, name, posterior, h, C, solver, start=None, tol=1e-8):
    """(14) by one of the solvers, which is made where its class is given."""
    if isinstance(solver, type):
        solver = solver(StructuredHinge(p.candidates, p.y, ClassBlocks(p.n_classes), C))
    hinge = solver.hinge
    losses = ExpectedLoss(LOSSES[name], p.candidates, p.y, p.n_classes).expected_loss(posterior)
    truth = ImputedLatents(hinge, rows=p.candidates.offsets + h)
    return solver.solve(losses, truth, start or hinge.origin(), tol), solver


@pytest.mark.parametrize(
    ("name", "C", "seed"), [(n, C, (i + j) % 3) for i, n in enumerate(LOSSES) for j, C in enumerate((0.01, 1.0, 30.0))]
)
def test_it_finds_the_optimum_of_the_full_quadratic_program(Solver, name, C, seed):
    p = problem(seed)
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
    solution, _ = solve(p, name, posterior, h, C, Solver)
    assert solution.value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize(("name", "seed"), [("overlap", 0), ("function", 1), ("overlap", 2)])
def test_a_working_set_of_another_h_and_posterior_still_finds_the_optimum(Solver, name, seed):
    p, C = problem(seed, n=10), 5.0
    solver, start = Solver, None
    for change in range(4):
        posterior, h = random_posterior(p, 10 * seed + change), random_h(p, 20 * seed + change)
        solution, solver = solve(p, name, posterior, h, C, solver, start)
        start = solution.point
        optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
        assert solution.value == pytest.approx(optimum, abs=1e-6)


def test_it_is_right_after_cuts_were_dropped(Solver):
    p, C, name = problem(4, n=14, d=6), 20.0, "zero_one"
    solver, start, most = Solver, None, 0
    for change in range(3):
        posterior, h = random_posterior(p, change), random_h(p, change)
        solution, solver = solve(p, name, posterior, h, C, solver, start)
        start = solution.point
        optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
        assert solution.value == pytest.approx(optimum, abs=1e-6)
        kept = len(solver.cuts) if Solver is OneSlack else solver.planes.count.max()
        most = max(most, kept)
    made = solver.hinge.passes
    assert most < made  # some were dropped


@pytest.mark.parametrize("tol", [1.0, 0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("seed", range(4))
def test_the_reported_gap_bounds_the_distance_to_the_optimum(Solver, tol, seed):
    p, C = problem(seed), 3.0
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    solution, _ = solve(p, "overlap", posterior, h, C, Solver, tol=tol)
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9
    assert solution.gap <= tol + 1e-9


def test_the_gap_is_a_bound_where_the_passes_run_out(Solver):
    p, C = problem(1), 30.0
    posterior, h = random_posterior(p, 1), random_h(p, 1)
    optimum, _ = structural_svm(p, expected_loss("zero_one", p, posterior), h, C)
    solver = Solver(StructuredHinge(p.candidates, p.y, ClassBlocks(3), C), max_iter=2)
    solution, _ = solve(p, "zero_one", posterior, h, C, solver)
    assert solution.gap > 1e-3
    assert solution.value - optimum <= solution.gap + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_it_never_ends_above_where_it_started(Solver, seed):
    p, C = problem(seed), 2.0
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    losses = ExpectedLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(random_posterior(p, seed))
    truth = ImputedLatents(hinge, rows=p.candidates.offsets + random_h(p, seed))
    start = hinge.at(torch.as_tensor(np.random.default_rng(seed).normal(size=hinge.size)))
    for tol in (1e9, 10.0, 0.1):
        solution = Solver(hinge).solve(losses, truth, start, tol)
        assert solution.value <= hinge.convex_value(start, losses, truth.mean)
        assert solution.value == pytest.approx(hinge.convex_value(solution.point, losses, truth.mean), abs=1e-9)


def test_scores_of_the_solution_are_those_of_its_w(Solver):
    p = problem(2)
    solution, solver = solve(p, "overlap", random_posterior(p, 2), random_h(p, 2), 10.0, Solver)
    torch.testing.assert_close(solution.point.scores, solver.hinge.at(solution.point.w).scores, atol=1e-9, rtol=0)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_shared_weights_and_latent_sets_that_depend_on_the_class(Solver, C):
    p = problem(3, n=9, most=5)
    joint = SharedWeights(3)
    lacks = joint.lacks(p.candidates).numpy()
    h = torch.zeros(len(p.y), dtype=torch.long)  # every class has its first candidate
    losses = expected_loss("overlap", p, delta_at(p, h))
    optimum, w = structural_svm(p, losses, h, C, shared_weights(p), lacks)
    hinge = StructuredHinge(p.candidates, p.y, joint, C)
    truth = ImputedLatents(hinge, rows=p.candidates.offsets + h)
    solution = Solver(hinge).solve(torch.as_tensor(losses), truth, hinge.origin(), 1e-9)
    assert solution.value == pytest.approx(optimum, abs=1e-6)
    np.testing.assert_allclose(solution.point.w.numpy(), w, atol=2e-3)
    assert bool((solution.point.scores == -torch.inf)[torch.as_tensor(lacks)].all())


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("scale", [1e-2, 255.0])
def test_neither_large_features_nor_a_large_c_keep_it_from_the_tolerance(Solver, scale, C):
    p = problem(6, n=12, d=6, signal=3)
    p.candidates.features.mul_(scale)
    posterior, h = random_posterior(p, 6), random_h(p, 6)
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    solution, solver = solve(p, "overlap", posterior, h, C, Solver, tol=1e-4 * C)
    assert -1e-8 * optimum <= solution.value - optimum <= solution.gap + 1e-8 * optimum
    assert solution.gap <= 1e-4 * C
    assert solver.hinge.passes < 200


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1.0, 1e4])
def test_single_precision_ends_where_no_w_helps(Solver, C):
    # Every feature is zero: w = 0 is optimal, and there is nothing to gain but rounding.
    p = problem(0, n=30, dtype=torch.float32)
    p.candidates.features.zero_()
    posterior = random_posterior(p, 0).float()
    solution, solver = solve(p, "overlap", posterior, random_h(p, 0), C, Solver, tol=0.0)
    assert solution.value == pytest.approx(C * float(expected_value_at_origin(p, posterior)), rel=1e-5)
    assert solver.hinge.passes < 10


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1.0])
def test_single_precision_ends_where_hardly_any_w_helps(Solver, C):
    p = problem(0, n=30, d=8, most=7, dtype=torch.float32, signal=0.5)
    solution, solver = solve(p, "overlap", random_posterior(p, 0).float(), random_h(p, 0), C, Solver, tol=0.0)
    assert solver.hinge.passes < 200  # not ended by its limit
    assert solution.gap <= 1e-6 * solution.value


def expected_value_at_origin(p, posterior) -> float:
    losses = expected_loss("overlap", p, posterior)
    return np.mean([losses[p.of(i).start : p.of(i).stop].max() for i in range(len(p.y))])


@pytest.mark.parametrize("seed", range(3))
def test_latents_may_be_mixtures(Solver, seed):
    p, C = problem(seed, n=10, most=5), 5.0
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    posterior, weights = random_posterior(p, seed), random_posterior(p, seed + 1)
    losses = ExpectedLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(posterior)
    solver, truth = Solver(hinge), ImputedLatents(hinge, weights)
    solution = solver.solve(losses, truth, hinge.origin(), 1e-9)
    other = (OneSlack if Solver is NSlack else NSlack)(hinge).solve(losses, truth, hinge.origin(), 1e-9)
    assert solution.value == pytest.approx(other.value, abs=1e-7)
    assert solution.value == pytest.approx(hinge.convex_value(solution.point, losses, truth.mean), abs=1e-9)
    h = random_h(p, seed)  # and then a candidate does
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    assert solve(p, "overlap", posterior, h, C, solver, solution.point)[0].value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_samples_may_have_weights(Solver, seed):
    p, C = problem(seed, n=10), 5.0
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    kept = torch.tensor([i % 3 > 0 for i in range(10)])
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    solver = Solver(hinge)
    solve(p, "overlap", posterior, h, C, solver)  # all of them first, so that there is something to forget
    hinge.weight = kept.double()
    solution, _ = solve(p, "overlap", posterior, h, C, solver)
    part = Problem(p.candidates.subset(kept), p.y[kept], p.h[kept], 3)
    rows = kept[p.candidates.sample]
    optimum, _ = structural_svm(part, expected_loss("overlap", p, posterior)[rows.numpy()], h[kept], C * float(kept.double().mean()))
    assert solution.value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_restored_solver_continues_as_if_never_interrupted(Solver, seed):
    p, C = problem(seed, n=12, most=5), 5.0
    posteriors, hs = [random_posterior(p, seed + k) for k in range(2)], [random_h(p, seed + k) for k in range(2)]
    first, solver = solve(p, "overlap", posteriors[0], hs[0], C, Solver, tol=0.1)
    other = Solver(StructuredHinge(p.candidates, p.y, ClassBlocks(3), C))
    other.load_state(solver.state())
    after = [solve(p, "overlap", posteriors[1], hs[1], C, s, first.point, tol=1e-3)[0] for s in (solver, other)]
    assert torch.equal(after[0].point.w, after[1].point.w)
    assert after[0].gap == after[1].gap
