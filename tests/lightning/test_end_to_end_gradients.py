"""Learning end to end: derivatives through both distributions, RoIAlign and the network."""

import numpy as np
import pytest
import torch
from given import GivenTheta, GivenW, recorded
from torch import nn
from two_digits import SETTINGS

from lvmdc import DISC, LSVM, OverlapLoss
from lvmdc.inference import best
from lvmdc.lightning import AlternatingModule, LatentDataModule
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import Batch
from lvmdc.lightning.region_features import RegionFeatures
from lvmdc.losses import ExpectedLoss
from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.base import WindowGrid


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


@pytest.mark.parametrize("learner", [DISC, LSVM])
@pytest.mark.parametrize("theta_bound", ["slack", "prediction"])
@pytest.mark.parametrize("theta_grid", [None, 2])
@pytest.mark.parametrize("channels", [2, 5])  # fewer than cells, and more: the two ways of `roi_pool`
def test_the_gradient_of_the_whole_objective_is_that_of_differences(learner, theta_bound, theta_grid, channels, device):
    """Through P_w, P_θ, the length, RoIAlign and the network, in w, θ and the network's weights."""
    if learner is not DISC and (theta_bound, theta_grid) != ("slack", None):
        pytest.skip("has one form")
    rng = np.random.default_rng(1)
    images = ImageSet([rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) for _ in range(2)], ["a", "b"], [0, 1])
    data = LatentDataModule(images, WindowGrid(size=(8, 8), stride=4), Learned(), fraction=0.5, progress=False)
    samples = data.of_images(torch.arange(2)).subset(torch.tensor([0, 1])).to(device)
    network = Tiny(channels, theta_grid=theta_grid).to(device).train()
    given = learner(**SETTINGS) if learner is not DISC else DISC(theta_bound=theta_bound, **SETTINGS)
    w, theta = (torch.randn(2, d, dtype=torch.float64) / 8 for d in (channels, channels * (theta_grid or 1) ** 2))
    regions, unknown = RegionFeatures(network), torch.full((2,), -1)
    names, weights = zip(*((name, p.detach().clone().requires_grad_()) for name, p in network.named_parameters()), strict=True)

    def parts(w, theta, *weights):
        found = torch.func.functional_call(network, dict(zip(names, weights, strict=True)), tuple(regions._views(samples)))
        candidates = regions._candidates(samples, *found)
        module = recorded(AlternatingModule)(given, warmup_epochs=0)
        module.weights = AveragedWeights(GivenW(w), None if learner is LSVM else GivenTheta(theta), decay=None)
        rows = torch.arange(candidates.n_candidates)
        batch = Batch(ExpectedLoss(OverlapLoss(), candidates, samples.y, 2), torch.zeros(len(rows)), unknown, rows)
        module.take = lambda index: batch
        return module, batch

    def whole(w, theta, *weights):
        """(11), or, where θ minimises (15), that."""
        module, batch = parts(w, theta, *weights)
        scores = module.p_w.scores(batch.candidates)
        p = batch.impute(scores) if learner is LSVM else batch.posterior(module.p_theta)
        bound = module.slacks(batch, scores, p) if theta_bound == "slack" else batch.loss.expected_at(p, *best(batch.candidates, scores))
        if learner is LSVM:
            return 0.5 * w.square().sum() + given.C * bound.mean()
        risk = 0.5 * given.J * theta.square().sum() + given.C * (bound - given.beta * batch.loss.diversity(p)).mean()
        return risk + 0.5 * w.square().sum() * (theta_bound == "slack")

    inputs = (w.requires_grad_(theta_bound == "slack"), theta.requires_grad_(learner is not LSVM), *weights)
    assert torch.autograd.gradcheck(whole, inputs, atol=1e-4, rtol=1e-3)
    if theta_bound == "slack":  # then a step of all three is one on (11)
        module, _ = parts(*inputs)
        module.training_step(torch.arange(2), 0)
        learned = [v for v in inputs if v.requires_grad]
        mine, expected = (torch.autograd.grad(value, learned) for value in (module.objective, whole(*inputs)))
        for one, two in zip(mine, expected, strict=True):
            torch.testing.assert_close(one, two)
