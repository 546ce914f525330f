"""Learning end to end: derivatives through both distributions, RoIAlign and the network."""

import numpy as np
import pytest
import torch
from torch import nn
from two_digits import SETTINGS

from lvmdc import DISC, LSVM, OverlapLoss, SoftDISC
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.lightning import LatentDataModule
from lvmdc.lightning.batches import Batch, batch_objective
from lvmdc.lightning.region_features import RegionFeatures
from lvmdc.losses import ExpectedLoss
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.grid import WindowGrid


class Tiny(RegionNetwork):
    """Two smooth convolutions in double precision, to a map of four cells."""

    def __init__(self, channels, **settings):
        super().__init__("small_cnn", weights=None, stride=8, longer_side=16, **settings)
        torch.manual_seed(0)
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 2, 3, stride=4, padding=1), nn.Softplus(), nn.Conv2d(2, channels, 3, stride=2, padding=1), nn.Tanh()
        )
        self.channels = channels
        self.double()


@pytest.mark.parametrize("learner", [DISC, LSVM, SoftDISC])
@pytest.mark.parametrize("theta_bound", ["slack", "prediction"])
@pytest.mark.parametrize("theta_grid", [None, 2])
@pytest.mark.parametrize("channels", [2, 5])  # fewer than cells, and more: the two ways of `roi_pool`
def test_the_gradient_of_the_whole_objective_is_that_of_differences(learner, theta_bound, theta_grid, channels):
    """Through P_w, P_θ, the length, RoIAlign and the network, in w, θ and the network's weights."""
    if learner is not DISC and (theta_bound, theta_grid) != ("slack", None):
        pytest.skip("has one form")
    rng = np.random.default_rng(1)
    images = ImageSet([rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) for _ in range(2)], ["a", "b"], [0, 1])
    data = LatentDataModule(images, WindowGrid(size=(8, 8), stride=4), Learned(), fraction=0.5, progress=False)
    samples = data._of_images().subset(torch.tensor([0, 1]))
    network = Tiny(channels, theta_grid=theta_grid).train()
    given = learner(**SETTINGS) if learner is not DISC else DISC(theta_bound=theta_bound, **SETTINGS)
    d, d_theta = channels, channels * (theta_grid or 1) ** 2
    w, theta = torch.randn(2, d, dtype=torch.float64) / 8, torch.randn(2, d_theta, dtype=torch.float64) / 8
    regions, unknown = RegionFeatures(network), torch.full((2,), -1)
    names, weights = zip(*((name, p.detach().clone().requires_grad_()) for name, p in network.named_parameters()), strict=True)

    def parts(w, theta, *weights):
        found = torch.func.functional_call(network, dict(zip(names, weights, strict=True)), tuple(regions._views(samples)))
        candidates = regions._candidates(samples, *found)
        p_w, p_theta = Given(LinearPrediction(torch.zeros(2, d)), w), GivenTheta(LogLinear(torch.zeros(2, d_theta)), theta)
        rows = torch.arange(candidates.n_candidates)
        batch = Batch(ExpectedLoss(OverlapLoss(), candidates, samples.y, 2), torch.zeros(len(rows)), unknown, rows)
        return batch_objective(given, p_w, None if learner is LSVM else p_theta), batch

    def whole(w, theta, *weights):
        """(11), or, where θ minimises (15), that."""
        objective, batch = parts(w, theta, *weights)
        if learner is not DISC:
            return objective.value(batch)
        p, scores = objective.p_theta.log_prob(batch.candidates, batch.y).exp(), objective.p_w.scores(batch.candidates)
        if theta_bound == "prediction":
            return objective.theta_problem(batch, scores.detach()).risk(p)
        each = objective.slacks(batch, scores, p) - objective.beta * batch.bound.diversity(p)
        return 0.5 * w.square().sum() + 0.5 * objective.J * theta.square().sum() + objective.C * each.mean()

    inputs = (w.requires_grad_(theta_bound == "slack"), theta.requires_grad_(learner is not LSVM), *weights)
    assert torch.autograd.gradcheck(whole, inputs, atol=1e-4, rtol=1e-3)
    if theta_bound == "slack":  # then a step of all three is one on (11)
        objective, batch = parts(*inputs)
        learned = [v for v in inputs if v.requires_grad]
        for one, two in zip(
            torch.autograd.grad(objective.value(batch), learned), torch.autograd.grad(whole(*inputs), learned), strict=True
        ):
            torch.testing.assert_close(one, two)


class Given(LinearPrediction):
    def __init__(self, like, w):
        super().__init__(like.w)
        self.given = w

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates):
        return candidates.features @ self.given.T


class GivenTheta(LogLinear):
    def __init__(self, like, theta):
        super().__init__(like.theta)
        self.given = theta

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates, y):
        return (candidates.for_phi().features * self.given[y][candidates.sample]).sum(1)
