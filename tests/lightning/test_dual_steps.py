"""Dual steps on a linear w: against the exact solver, and against their own definition."""

import itertools

import pytest
import torch
from learners.problems import problem

from lvmdc import OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.distributions import LinearPrediction
from lvmdc.feature_maps import ClassBlocks
from lvmdc.lightning.batches import TrainingSet
from lvmdc.lightning.dual_steps import DualSteps

C = 5.0


class Training:
    """A supervised problem, its dual steps, and the learner that has solved it exactly."""

    def __init__(self, loss, seed=0):
        found = problem(seed, n=20, most=5)
        c, y = found.candidates, found.y
        h = torch.randint(100, (len(y),), generator=torch.Generator().manual_seed(seed)) % c.counts
        self.exact = Supervised(loss, C=C, tol=1e-6).fit(c, y, h=h)
        known = c.offsets + h
        start = torch.zeros(c.n_candidates, dtype=torch.float64).index_fill(0, known, 1.0)
        self.classes = self.exact.n_classes_
        self.samples = TrainingSet(c, y, self.exact.loss_, self.classes, start, known)
        self.dual = DualSteps(self.samples, ClassBlocks(self.classes), C)
        self.p_w = LinearPrediction(torch.zeros(self.classes, c.n_features, dtype=c.features.dtype))

    def epoch(self, size=6):
        for index in torch.randperm(len(self.samples)).split(size):
            batch = self.dual.batch(index)
            self.dual.advance(batch, self.p_w, batch.loss.expected_loss(batch.start.to(self.p_w.w.dtype)))

    def bounds(self):
        return self.dual.bounds(self.p_w, None)


@pytest.fixture(params=[OverlapLoss(), ZeroOneLoss()], ids=["overlap", "0/1"])
def training(request):
    torch.manual_seed(0)
    return Training(request.param)


@pytest.mark.slow
def test_they_reach_the_optimum_of_the_exact_solver(training):
    for _ in range(200):
        training.epoch()
    bounds, _ = training.bounds()
    assert bounds.value == pytest.approx(training.exact.objective_, rel=1e-3)
    assert bounds.gap <= 1e-2 * (bounds.origin - bounds.value)


def test_no_step_lowers_the_dual_and_it_is_never_above_the_optimum(training):
    values = []
    for _ in range(10):
        values.append(training.bounds()[0].dual)
        training.epoch(size=1)
    assert values[0] == pytest.approx(0.0, abs=1e-9)
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(values))
    assert values[-1] > 0.5 * training.exact.objective_
    assert values[-1] <= training.exact.objective_ + 1e-4


def test_w_is_that_of_alpha_and_alpha_a_distribution_for_each_sample(training):
    for _ in range(3):
        training.epoch()
    torch.testing.assert_close(training.p_w.w.data.flatten().double(), training.dual.w(), rtol=1e-4, atol=1e-5)
    mass = torch.zeros(len(training.samples), dtype=torch.float64)
    mass.index_add_(0, training.samples.candidates.sample, training.dual.alpha.double().sum(dim=1))
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-5)
    assert float(training.dual.alpha.min()) >= 0


def test_another_h_keeps_alpha_a_distribution_and_w_follows(training):
    training.epoch()
    c = training.samples.candidates
    assert not training.dual.move(training.samples.known, training.p_w)  # there it is already
    before = training.p_w.w.data.clone()
    assert training.dual.move(c.offsets, training.p_w)
    assert not torch.equal(before, training.p_w.w.data)
    torch.testing.assert_close(training.p_w.w.data.flatten().double(), training.dual.w(), rtol=1e-4, atol=1e-5)
    assert training.samples.start.nonzero()[:, 0].tolist() == c.offsets.tolist()
    mass = torch.zeros(len(c), dtype=torch.float64).index_add_(0, c.sample, training.dual.alpha.double().sum(dim=1))
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-5)


def test_the_state_is_all_that_is_needed_to_continue(training):
    training.epoch()
    training.dual.move(training.samples.candidates.offsets, training.p_w)
    torch.manual_seed(0)
    other = Training(training.exact.loss_)
    other.dual.load(training.dual.state())
    assert torch.equal(other.dual.alpha, training.dual.alpha)
    assert torch.equal(other.samples.start, training.samples.start)
    assert torch.equal(other.dual.w(), training.dual.w())
