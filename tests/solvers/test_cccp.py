import itertools

import pytest
import torch
from learners.problems import COST, LOSSES, expected_loss, latent_svm_value, problem, random_h, random_posterior, structural_svm

from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss, LabelLoss
from lvmdc.sequences import planted_motifs
from lvmdc.solvers import ImputedLatents, StructuredHinge, latent_block
from lvmdc.solvers.choice import convex_solver

KINDS = [("one_slack", "inexact"), ("one_slack", "self_paced"), ("n_slack", "inexact"), ("n_slack", "eager"), ("n_slack", "self_paced")]
KINDS += [("one_slack", "exact"), ("n_slack", "exact")]
kinds = pytest.mark.parametrize("kind", KINDS, ids=" ".join)
problems = pytest.mark.parametrize(("name", "seed"), [("zero_one", 0), ("overlap", 1), ("function", 2), ("overlap", 3)])


def start(kind, p, name, posterior, C, tol, known=None):
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(p.n_classes), C, known)
    losses = ExpectedLoss(LOSSES[name], p.candidates, p.y, p.n_classes).expected_loss(posterior)
    truth = ImputedLatents(hinge, rows=p.candidates.offsets + random_h(p, 0))
    return latent_block(hinge, *kind, tol, truth), lambda latents: losses


@kinds
@problems
def test_the_objective_never_rises_over_rounds(kind, name, seed):
    p, C = problem(seed, n=12, d=5, most=5, signal=3), 10.0
    posterior = random_posterior(p, seed)
    cccp, losses = start(kind, p, name, posterior, C, 1e-6)
    plain = expected_loss(name, p, posterior)
    for _ in range(12):
        before = latent_svm_value(p, plain, cccp.point.w.numpy(), C)
        done = cccp.run(losses, max_rounds=1)
        after = latent_svm_value(p, plain, cccp.point.w.numpy(), C)
        assert done.decrease >= -1e-9
        assert done.decrease == pytest.approx(before - after, abs=1e-8)


@kinds
@problems
def test_the_objective_never_rises_where_the_loss_follows_h(kind, name, seed):
    p, C = problem(seed, n=12, d=5, most=5, signal=3), 10.0
    bound = ExpectedLoss(LOSSES[name], p.candidates, p.y, p.n_classes)
    cccp, _ = start(kind, p, name, random_posterior(p, seed), C, 1e-6)
    before = C * max(1.0, COST[1][0])
    for _ in range(12):
        done = cccp.run(lambda latents: bound.expected_loss(latents.p), max_rounds=1)
        plain = expected_loss(name, p, cccp.latents.p)
        after = latent_svm_value(p, plain, cccp.point.w.numpy(), C)
        assert after <= before + 1e-8
        assert done.decrease >= 0
        before = after


@kinds
@pytest.mark.parametrize("seed", range(2))
def test_it_ends_at_a_fixed_point_of_algorithm_1(kind, seed):
    p, C = problem(seed, n=10, signal=3), 10.0
    posterior = random_posterior(p, seed)
    cccp, losses = start(kind, p, "overlap", posterior, C, 1e-7)
    last = cccp.run(losses, max_rounds=100)
    assert last.converged
    h = cccp.hinge.impute(cccp.point.scores) - p.candidates.offsets
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    assert cccp.hinge.value(cccp.point, losses(cccp.latents)) == pytest.approx(optimum, abs=3e-7)


@pytest.mark.parametrize("kind", [k for k in KINDS if k[1] != "self_paced"], ids=" ".join)  # whose first run is many rounds
def test_it_stops_at_the_first_round_that_gains_less_than_the_tolerance(kind):
    p = problem(1, n=10, signal=3)
    posterior = random_posterior(p, 1)
    loose, losses = start(kind, p, "overlap", posterior, 10.0, 10 * 1e-2)
    rounds = []
    while not rounds or not rounds[-1].converged:
        rounds.append(loose.run(losses, max_rounds=1))
    assert rounds[-1].decrease <= loose.tolerance <= 0.1
    assert rounds[-1].gap <= loose.tolerance


@kinds
def test_at_small_c_learning_does_not_end_with_the_first_h(kind):
    p, C = problem(5, n=12, most=5, signal=3), 1e-4
    posterior = random_posterior(p, 5)
    cccp, losses = start(kind, p, "overlap", posterior, C, C * 1e-3)
    last = cccp.run(losses, 100)
    gained = cccp.hinge.value_at_origin(losses(cccp.latents)) - cccp.hinge.value(cccp.point, losses(cccp.latents))
    assert last.converged
    h = cccp.hinge.impute(cccp.point.scores) - p.candidates.offsets
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    assert cccp.hinge.value(cccp.point, losses(cccp.latents)) - optimum <= 0.05 * gained + 1e-12


@kinds
def test_a_known_h_is_never_replaced(kind):
    p = problem(2, n=10, signal=3)
    known = torch.where(torch.arange(10) % 2 == 0, p.candidates.offsets + p.h, -1)
    cccp, losses = start(kind, p, "zero_one", random_posterior(p, 2), 10.0, 1e-4, known)
    cccp.run(losses, 100)
    assert torch.equal(cccp.hinge.impute(cccp.point.scores)[::2], known[::2])


@pytest.mark.parametrize("solver", ["one_slack", "n_slack"])
def test_self_paced_learning_takes_the_easy_half_first_and_ends_with_all(solver):
    p = problem(3, n=40, d=6, most=5, signal=2)
    block, losses = start((solver, "self_paced"), p, "zero_one", random_posterior(p, 3), 10.0, 1e-4)
    block.run(losses, 100)
    assert 0.4 <= block.taken[0] <= 0.7
    assert block.taken[-1] == 1.0
    assert len(block.taken) >= 2
    assert block.hinge.weight is None


def test_self_paced_learning_takes_the_samples_that_minimise_its_objective():
    # v_i = [C/n ξ_i < 1/K] minimises C/n Σ v_i ξ_i − (1/K) Σ v_i: by trying all v.
    p = problem(4, n=6, d=4, signal=2)
    block, losses = start(("n_slack", "self_paced"), p, "label", random_posterior(p, 4), 5.0, 1e-3)
    block.point = block.hinge.at(torch.randn(block.hinge.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    xi = block._slack(losses(block.latents))
    threshold = float(xi.quantile(0.5))
    each = [torch.tensor(v) for v in itertools.product([0.0, 1.0], repeat=6)]
    best = min(each, key=lambda v: float((v * xi).sum() - threshold * v.sum()))
    strictly = (xi - threshold).abs() > 1e-12
    assert torch.equal((xi <= threshold).double()[strictly], best[strictly].double())


def test_eager_is_refused_for_solvers_without_planes():
    p = problem(0)
    with pytest.raises(ValueError, match="cccp='eager' needs solver='n_slack'"):
        start(("one_slack", "eager"), p, "overlap", random_posterior(p, 0), 1.0, 1e-3)


@kinds
def test_it_does_not_end_at_w_0_because_that_solves_the_first_problem(kind, device):
    """The best window of a sequence without a motif beats a random one with it, so that the first (14) is solved by w = 0."""
    found, C = planted_motifs(per_class=200, length=40, order=0), 30.0
    c, y = found.candidates().to(device), found.y.to(device)
    hinge = StructuredHinge(c, y, found.psi, C)
    losses = ExpectedLoss(LabelLoss(), c, y, 2).expected_loss(torch.full((c.n_candidates,), 1 / 31))
    rows = c.offsets + torch.where(y == 1, torch.randint(31, (400,), generator=torch.Generator().manual_seed(0)), 0)
    first = convex_solver(hinge, kind[0]).solve(losses, ImputedLatents(hinge, rows=rows), hinge.origin(), 0.01)
    assert first.value == pytest.approx(C)
    assert first.beyond is not None
    block = latent_block(hinge, *kind, 1e-3 * C, ImputedLatents(hinge, rows=rows))
    done = block.run(lambda latents: losses, max_rounds=100)
    assert done.converged
    assert hinge.value(block.point, losses) < 0.6 * C
