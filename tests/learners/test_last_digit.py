"""The last digit of the features does not decide what is learned."""

import pytest
import torch
from learners.problems import problem

from lvmdc import DISC, ILSVM, LSVM, Candidates, OverlapLoss, ZeroOneLoss
from lvmdc.feature_maps import ClassBlocks
from lvmdc.samples import split_by_class
from lvmdc.solvers.initial import likelihood_posterior
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.proposals import WindowGrid


@pytest.fixture(scope="module")
def digits(device):
    images = cluttered_digits(per_class=30)
    candidates = build_candidates(images, WindowGrid(), HOG(), cache_dir=None, progress=False)
    train, test = split_by_class(images.y)
    return candidates.subset(train).to(device), images.y[train].to(device), candidates.subset(test).to(device)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [OverlapLoss(), ZeroOneLoss()], ids=str)
@pytest.mark.parametrize("learner", [LSVM, ILSVM, DISC])
def test_predictions_stay_when_the_features_change_by_a_millionth(digits, learner, loss):
    train, y, test = digits
    found = []
    for seed in range(3):
        noise = torch.randn(train.features.shape, generator=torch.Generator().manual_seed(seed)) if seed else 0
        copy = Candidates(train.features * (1 + 1e-6 * noise), train.counts, train.boxes)
        model = learner(loss, C=30.0).fit(copy, y)
        found.append((model.objective_, model.predict(test)))
    first, (classes, latents) = found[0]
    for objective, (other_classes, other_latents) in found[1:]:
        assert objective == pytest.approx(first, rel=0.01)
        same = (classes == other_classes) & (latents == other_latents)
        assert float(same.double().mean()) >= 0.95


def test_the_first_w_of_disc_learns_under_the_belief_of_the_start_and_p_theta_takes_over():
    p = problem(0, n=20, most=6, signal=3)
    model = DISC(OverlapLoss(), C=3.0)
    model.begin(p.candidates, p.y)
    belief = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), torch.full_like(p.y, -1))
    torch.testing.assert_close(model._training.p.double(), belief)
    model.step()
    torch.testing.assert_close(model._training.p, model.predict_latent_proba(p.candidates, p.y))
