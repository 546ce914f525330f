"""What block-coordinate Frank–Wolfe has beyond the other solvers of (14); that it finds the optimum is in test_convex.py."""

import numpy as np
import pytest
import torch
from learners.problems import LOSSES, expected_loss, problem, random_h, random_posterior, structural_svm

from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import FrankWolfe, ImputedLatents, StructuredHinge


def ready(which=0, n=30, C=5.0, dtype=torch.float64, **settings):
    p = problem(which, n=n, most=5, dtype=dtype)
    posterior, h = random_posterior(p, which), random_h(p, which)
    hinge = StructuredHinge(p.candidates, p.y, ClassBlocks(3), C)
    losses = ExpectedLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(posterior.to(dtype))
    optimum, _ = structural_svm(p, expected_loss("overlap", p, posterior), h, C)
    return FrankWolfe(hinge, **settings), losses, ImputedLatents(hinge, rows=p.candidates.offsets + h), optimum


def test_known_planes_save_calls_of_the_oracle():
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
def test_the_seed_alone_decides(block):
    runs = []
    for seed in (4, 4, 5):
        solver, losses, truth, optimum = ready(2, n=12, block=block, seed=seed)
        runs.append(solver.solve(losses, truth, solver.hinge.origin(), tol=1e-3))
        assert runs[-1].value - optimum <= 1e-3 + 1e-9
    assert torch.equal(runs[0].point.w, runs[1].point.w)
    assert runs[0].gap == runs[1].gap
    assert not torch.equal(runs[0].point.w, runs[2].point.w)


def test_a_block_of_no_samples_is_refused():
    with pytest.raises(ValueError, match="block must be at least 1"):
        ready(block=0)
