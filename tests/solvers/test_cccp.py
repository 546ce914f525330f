import pytest
import torch
from learners.problems import LOSSES, expected_loss, latent_svm_value, problem, random_h, random_posterior, structural_svm

from lvmdc.joint import ClassBlocks
from lvmdc.losses import BoundLoss
from lvmdc.solvers import CCCP, OneSlack, StructuredHinge


def start(p, name, posterior, C, tol, known=None):
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(p.n_classes), C, known)
    losses = BoundLoss(LOSSES[name], p.candidates, p.y, p.n_classes).expected_loss(posterior)
    truth = hinge.mean_psi(p.y, p.candidates.offsets + random_h(p, 0))
    return CCCP(hinge, OneSlack(hinge), tol, truth), losses


@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_rises_over_rounds(name, seed):
    p, C = problem(seed, n=12, d=5, most=5, signal=3), 10.0
    posterior = random_posterior(p, seed)
    cccp, losses = start(p, name, posterior, C, 1e-6)
    plain = expected_loss(name, p, posterior)
    for _ in range(12):
        before = latent_svm_value(p, plain, cccp.point.w.numpy(), C)
        done = cccp.round(losses)
        after = latent_svm_value(p, plain, cccp.point.w.numpy(), C)
        assert done.decrease >= -1e-9
        assert done.decrease == pytest.approx(before - after, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_a_fixed_point_of_algorithm_1(seed):
    p, C = problem(seed, n=10, signal=3), 10.0
    posterior = random_posterior(p, seed)
    cccp, losses = start(p, "overlap", posterior, C, 1e-7)
    last = cccp.run(losses, max_rounds=100)
    assert last.converged
    h = cccp.hinge.impute(cccp.point.scores) - p.candidates.offsets
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    assert cccp.hinge.value(cccp.point, losses) == pytest.approx(optimum, abs=3e-7)


def test_it_stops_at_the_first_round_that_gains_less_than_the_tolerance():
    p = problem(1, n=10, signal=3)
    posterior = random_posterior(p, 1)
    loose, losses = start(p, "overlap", posterior, 10.0, 10 * 1e-2)
    rounds = []
    while not rounds or not rounds[-1].converged:
        rounds.append(loose.round(losses))
    assert rounds[-1].decrease <= loose.tolerance <= 0.1
    assert all(not r.strict or r.decrease > 0.0 for r in rounds[:-1])
    again, _ = start(p, "overlap", posterior, 10.0, 10 * 1e-2)
    assert again.run(losses, 100).decrease == pytest.approx(sum(r.decrease for r in rounds))
    one, _ = start(p, "overlap", posterior, 10.0, 10 * 1e-2)
    assert one.run(losses, max_rounds=1).decrease == pytest.approx(rounds[0].decrease)


def test_at_small_c_learning_does_not_end_with_the_first_h():
    p, C = problem(5, n=12, most=5, signal=3), 1e-4
    posterior = random_posterior(p, 5)
    cccp, losses = start(p, "overlap", posterior, C, C * 1e-3)
    last = cccp.run(losses, 100)
    gained = cccp.hinge.value_at_origin(losses) - cccp.hinge.value(cccp.point, losses)
    assert last.converged
    h = cccp.hinge.impute(cccp.point.scores) - p.candidates.offsets
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    assert cccp.hinge.value(cccp.point, losses) - optimum <= 0.05 * gained + 1e-12


def test_a_known_h_is_never_imputed_anew():
    p = problem(2, n=10, signal=3)
    known = torch.where(torch.arange(10) % 2 == 0, p.candidates.offsets + p.h, -1)
    cccp, losses = start(p, "zero_one", random_posterior(p, 2), 10.0, 1e-4, known)
    cccp.run(losses, 100)
    assert torch.equal(cccp.hinge.impute(cccp.point.scores)[::2], known[::2])
