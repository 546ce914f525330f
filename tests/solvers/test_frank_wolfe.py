"""What block-coordinate Frank–Wolfe has beyond the other solvers of (14); that it finds the optimum is in test_convex.py."""

import numpy as np
import pytest
import torch
from learners.problems import LOSSES, expected_loss, problem, random_h, random_posterior, structural_svm

from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import FrankWolfe, StructuredHinge, Truth
from lvmdc.solvers.frank_wolfe import towards


def ready(which=0, n=30, C=5.0, dtype=torch.float64, **settings):
    p = problem(which, n=n, most=5, dtype=dtype)
    posterior, h = random_posterior(p, which), random_h(p, which)
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    losses = ExpectedLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(posterior.to(dtype))
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    return FrankWolfe(hinge, **settings), losses, Truth(hinge, rows=p.candidates.offsets + h), optimum


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_step_of_2013_gets_there_too(seed, average):
    solver, losses, truth, optimum = ready(seed, step="towards", average=average)
    solution = solver.solve(losses, truth, solver.hinge.origin(), tol=0.02)
    assert solution.gap <= 0.02
    assert -1e-9 <= solution.value - optimum <= solution.gap + 1e-9
    assert solution.value == pytest.approx(solver.hinge.convex_value(solution.point, losses, truth.mean), abs=1e-9)


def test_its_line_search_is_exact():
    # The dual of one sample along the step, α + γ(total e_best − α): value·α − ½ αᵀGα up to constants, by trying every γ.
    rng = np.random.default_rng(0)
    for total in (0.1, 1.0, 50.0):
        psi, alpha = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5)) * total
        gram, before = psi @ psi.T, alpha.copy()
        value = rng.normal(size=5)
        change = np.zeros(5)
        rise = total * value.max() - value @ alpha
        towards(value, alpha, gram, change, total, rise)
        direction = total * np.eye(5)[value.argmax()] - before

        def dual(share, d=direction, v=value, g=gram):
            return share * v @ d - 0.5 * share**2 * d @ g @ d

        best = max(np.linspace(0, 1, 100_001), key=dual)
        np.testing.assert_allclose(alpha, before + best * direction, atol=2e-5 * total)
        assert alpha.sum() == pytest.approx(total)


def test_known_planes_spare_the_oracle():
    # A second (14) that differs little is solved from the planes of the first: by fewer candidates scored than a fresh solver needs.
    solver, losses, truth, _ = ready(3)
    solver.solve(losses, truth, solver.hinge.origin(), tol=1e-4)
    before = solver.hinge.passes
    solver.solve(losses * 0.99, truth, solver.hinge.origin(), tol=1e-4)
    again = solver.hinge.passes - before
    fresh, _, other, _ = ready(3)
    fresh.solve(losses * 0.99, other, fresh.hinge.origin(), tol=1e-4)
    assert again < 0.8 * fresh.hinge.passes


def test_samples_are_drawn_in_proportion_to_their_gaps():
    solver, losses, truth, _ = ready(1, n=8, block=1)
    solver.rebase(losses, truth)
    solver.gaps = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 0.0, 0.0, 0.0])
    rng = np.random.default_rng(0)
    drawn = np.bincount(np.concatenate([solver._drawn(rng) for _ in range(4000)]), minlength=8)
    np.testing.assert_allclose(drawn / drawn.sum(), solver.gaps / solver.gaps.sum(), atol=0.03)
    assert (drawn[solver.gaps == 0] == 0).all()


@pytest.mark.parametrize("block", [1, 7, 100])
def test_a_seed_says_all(block):
    runs = []
    for seed in (4, 4, 5):
        solver, losses, truth, optimum = ready(2, n=12, block=block, seed=seed)
        runs.append(solver.solve(losses, truth, solver.hinge.origin(), tol=1e-3))
        assert runs[-1].value - optimum <= 1e-3 + 1e-9
    assert torch.equal(runs[0].point.w, runs[1].point.w)
    assert runs[0].gap == runs[1].gap
    assert not torch.equal(runs[0].point.w, runs[2].point.w)


@pytest.mark.parametrize(("settings", "message"), [({"step": "away"}, "step must be one of"), ({"block": 0}, "block must be at least 1")])
def test_other_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ready(**settings)
