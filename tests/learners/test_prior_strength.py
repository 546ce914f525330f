"""The strength of a prior is chosen by labels that were held back."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from lvmdc import DISC, LSVM, Candidates
from lvmdc.learners import strength_losses
from lvmdc.learners.prior_strength import label_loss
from lvmdc.losses import ZeroOneLoss


def problem(right, seed=0, n=40, m=6):
    """One candidate of each sample shows its class, weakly; the others show a random class. The prior is right or wrong about which."""
    rng = np.random.default_rng(seed)
    y, h = torch.arange(n) % 2, torch.as_tensor(rng.integers(0, m, n))
    shown = torch.as_tensor(rng.integers(0, 2, (n, m)))
    shown[torch.arange(n), h] = y
    x = torch.nn.functional.one_hot(shown, 2) + torch.as_tensor(rng.normal(0, 0.3, (n, m, 2)))
    prior = torch.zeros(n, m)
    prior[torch.arange(n), h if right else (h + 1) % m] = 6.0
    # What tells the candidate that shows the class from the others, so that w can find it in samples without a label.
    extra = torch.as_tensor(rng.normal(0, 0.3, (n, m, 2)))
    extra[torch.arange(n), h, y] += 1.0
    return Candidates(torch.cat([x, extra], dim=2).flatten(0, 1).float(), [m] * n, prior=prior.flatten()), y, h


@pytest.mark.slow
@pytest.mark.parametrize("learner", [DISC(C=10.0, loss=ZeroOneLoss()), LSVM(C=10.0)])
def test_a_prior_that_is_right_is_wanted_and_one_that_is_wrong_is_not(learner):
    right, wrong = ({}, {})
    for seed in range(3):
        for found, is_right in ((right, True), (wrong, False)):
            c, y, _ = problem(is_right, seed)
            for strength, loss in strength_losses(learner, c, y, strengths=[0.0, 1.0]).items():
                found[strength] = found.get(strength, 0.0) + loss
    assert right[1.0] < right[0.0]
    assert wrong[0.0] < wrong[1.0]


def test_the_loss_is_that_of_folds_and_a_scale_by_hand():
    c, y, _ = problem(True, n=20)
    learner = LSVM(C=10.0)
    scores = torch.zeros(20, 2, dtype=torch.float64)
    for others, held_out in StratifiedKFold(3, shuffle=True, random_state=0).split(y.numpy(), y.numpy()):
        own = c.subset(others)
        fitted = clone(learner).fit(own.with_prior(own.prior, 0.5), y[others])
        for i in held_out.tolist():
            scores[i] = (c.features[6 * i : 6 * i + 6].double() @ fitted.coef_.double().T).amax(dim=0)
    soft = torch.where(torch.nn.functional.one_hot(y, 2) == 1, 11 / 12, 1 / 12).double()  # Platt's (m + 1)/(m + 2), m = 10 of each class
    by_scale = [-float((soft * (math.exp(a) * scores).log_softmax(dim=1)).sum(dim=1).mean()) for a in np.linspace(-8, 8, 2000)]
    assert strength_losses(learner, c, y, strengths=[0.5])[0.5] == pytest.approx(min(by_scale), abs=1e-3)
    assert min(by_scale) <= math.log(2)


def test_labels_that_are_all_right_do_not_make_all_strengths_equal():
    scores, y = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), torch.tensor([0, 1, 0])
    uneven = scores * torch.tensor([[1.0], [0.2], [2.0]])
    assert 0.1 < label_loss(scores, y) < label_loss(uneven, y) - 0.01


def test_known_h_trains_too():
    c, y, h = problem(False)
    assert strength_losses(LSVM(C=10.0), c, y, h, strengths=[1.0])[1.0] < strength_losses(LSVM(C=10.0), c, y, strengths=[1.0])[1.0]


def test_what_cannot_be_chosen_is_refused():
    c, y, _ = problem(True, n=6)
    with pytest.raises(ValueError, match=r"candidates must have a prior"):
        strength_losses(LSVM(), c.with_prior(None), y)
    with pytest.raises(ValueError, match="at least 2 samples of each class to choose a strength of the prior, but one has 1"):
        strength_losses(LSVM(), c, [0, 0, 0, 0, 0, 1])
