"""Stochastic subgradients for (14), to the looser tolerance that they are for: 3 % of the value at w = 0."""

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

from lvmdc import DISC, LSVM, ConvergenceWarning
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import ImputedLatents, NSlack, Pegasos, StructuredHinge

LOOSE = 0.03


def ready(name, p, seed, C, joint=None):
    posterior, h = random_posterior(p, seed), random_h(p, seed)
    hinge = StructuredHinge(p.candidates, p.y, joint or ClassBlocks(p.n_classes), C)
    losses = ExpectedLoss(LOSSES[name], p.candidates, p.y, p.n_classes).expected_loss(posterior)
    optimum, _ = structural_svm(p, expected_loss(name, p, posterior), h, C)
    return hinge, losses, ImputedLatents(hinge, rows=p.candidates.offsets + h), optimum


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("name", ["overlap", "function"])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_it_comes_near_the_optimum_of_the_full_quadratic_program(name, C, batch):
    hinge, losses, truth, optimum = ready(name, problem(1), 1, C)
    tol = LOOSE * hinge.value_at_origin(losses)
    solution = Pegasos(hinge, batch=batch).solve(losses, truth, hinge.origin(), tol)
    assert solution.gap <= tol
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9
    assert solution.value == pytest.approx(hinge.convex_value(solution.point, losses, truth.mean), abs=1e-9)


@pytest.mark.parametrize("epochs", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_is_a_bound_wherever_the_epochs_run_out(epochs, seed):
    hinge, losses, truth, optimum = ready("overlap", problem(seed), seed, 30.0)
    solution = Pegasos(hinge, max_iter=epochs, batch=3, seed=seed).solve(losses, truth, hinge.origin(), 0.0)
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9


def test_its_gap_falls_with_the_epochs():
    hinge, losses, truth, _ = ready("overlap", problem(2, n=12), 2, 5.0)
    gaps = [Pegasos(hinge, max_iter=m).solve(losses, truth, hinge.origin(), 0.0).gap for m in (2, 20, 200)]
    assert gaps[2] < 0.5 * gaps[1] < 0.25 * gaps[0]


@pytest.mark.parametrize("seed", range(3))
def test_it_never_ends_above_where_it_started(seed):
    hinge, losses, truth, _ = ready("overlap", problem(seed), seed, 2.0)
    starts = [
        hinge.at(torch.from_numpy(np.random.default_rng(seed).normal(size=hinge.size))),
        NSlack(hinge).solve(losses, truth, hinge.origin(), 1e-8).point,
    ]
    for start in starts:  # the second is optimal: nothing that it finds is better
        solution = Pegasos(hinge, max_iter=3).solve(losses, truth, start, 0.0)
        assert solution.value <= hinge.convex_value(start, losses, truth.mean)


def test_shared_weights_and_latent_sets_that_depend_on_the_class():
    p, C, joint = problem(3, n=9, most=5), 1.0, SharedWeights(3)
    h = torch.zeros(len(p.y), dtype=torch.long)  # every class has its first candidate
    losses = expected_loss("overlap", p, delta_at(p, h))
    optimum, _ = structural_svm(p, losses, h, C, shared_weights(p), joint.lacks(p.candidates).numpy())
    hinge = StructuredHinge(p.candidates, p.y, joint, C)
    truth = ImputedLatents(hinge, rows=p.candidates.offsets + h)
    solution = Pegasos(hinge, batch=3).solve(torch.from_numpy(losses), truth, hinge.origin(), LOOSE)
    assert solution.gap <= LOOSE
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9


def test_latents_may_be_mixtures_and_samples_may_have_weights():
    p, C = problem(1, n=10, most=5), 2.0
    hinge, losses, _, _ = ready("overlap", p, 1, C)
    hinge.weight = torch.tensor([i % 3 / 2 for i in range(10)], dtype=torch.float64)
    truth = ImputedLatents(hinge, random_posterior(p, 2))
    exact = NSlack(hinge).solve(losses, truth, hinge.origin(), 1e-9)
    solution = Pegasos(hinge, batch=2).solve(losses, truth, hinge.origin(), LOOSE)
    assert solution.gap <= LOOSE
    assert -1e-9 <= solution.value - exact.value <= solution.gap + 1e-9


def test_the_seed_alone_decides_and_a_restored_solver_continues_as_if_never_interrupted():
    p = problem(4, n=12)
    hinge, losses, truth, _ = ready("overlap", p, 4, 2.0)
    solvers = [Pegasos(hinge, max_iter=30, batch=2, seed=s) for s in (0, 0, 1)]
    first = [s.solve(losses, truth, hinge.origin(), 0.0) for s in solvers]
    assert torch.equal(first[0].point.w, first[1].point.w)
    assert not torch.equal(first[0].point.w, first[2].point.w)
    resumed = Pegasos(hinge, max_iter=30, batch=2)
    resumed.load_state(solvers[0].state())
    after = [s.solve(losses, truth, first[0].point, 0.0) for s in (solvers[0], resumed)]
    assert torch.equal(after[0].point.w, after[1].point.w)
    assert after[0].gap == after[1].gap


def test_an_epoch_counts_as_a_pass():
    hinge, losses, truth, _ = ready("overlap", problem(0), 0, 1.0)
    Pegasos(hinge, max_iter=1, batch=3).solve(losses, truth, hinge.origin(), 0.0)
    assert hinge.passes == pytest.approx(2)  # to learn, and to measure


def test_a_latent_svm_learns_by_it():
    p = problem(3, n=20, signal=4)
    model, exact = (LSVM(C=1.0, tol=0.05, solver=s).fit(p.candidates, p.y) for s in ("pegasos", "n_slack"))
    assert model.converged_
    assert model.objective_ <= 1.1 * exact.objective_


def test_a_batch_of_no_samples_is_refused():
    hinge, *_ = ready("overlap", problem(0), 0, 1.0)
    with pytest.raises(ValueError, match="batch must be at least 1"):
        Pegasos(hinge, batch=0)


@pytest.mark.parametrize("learner", [LSVM, DISC])
def test_a_learner_ends_when_more_epochs_would_only_be_the_same(learner, monkeypatch):
    p = problem(3, n=12, signal=3)
    calls, whole = [], Pegasos.solve

    def solve(self, *args):
        self.max_iter = 20
        calls.append(args)
        return whole(self, *args)

    monkeypatch.setattr(Pegasos, "solve", solve)
    with pytest.warns(ConvergenceWarning, match=rf"{learner.__name__} stopped after \d+ iterations, since solver='pegasos' .* duality gap"):
        model = learner(C=300.0, tol=1e-6, solver="pegasos").fit(p.candidates, p.y)
    assert model.stuck_
    assert not model.converged_
    assert model.n_iter_ < model.max_iter
    assert len(calls) < 30
    again = learner(C=300.0, tol=1e-6, solver="pegasos")
    again.load_state_dict(model.state_dict())
    assert again.finished_
