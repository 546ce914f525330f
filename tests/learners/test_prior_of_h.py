"""Learners with a prior of h: its limits, and that equal weights are none."""

import itertools

import numpy as np
import pytest
import torch
from learners.problems import problem, scores
from torch import nn

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, OverlapLoss, Supervised
from lvmdc.learners import SoftDISC, fit_path
from lvmdc.segments import segment_sum
from lvmdc.solvers.likelihood import class_prior

LEARNERS = {
    "DISC": lambda **o: DISC(OverlapLoss(), C=5.0, **o),
    "DISC slack": lambda **o: DISC(OverlapLoss(), C=5.0, theta_bound="slack", **o),
    "DISC ssd": lambda **o: DISC(OverlapLoss(), C=5.0, theta_solver="ssd", max_iter=3, **o),
    "DISC uniform": lambda **o: DISC(OverlapLoss(), C=5.0, conditional="uniform", **o),
    "DISC network": lambda **o: DISC(OverlapLoss(), C=5.0, conditional=network(), max_iter=3, **o),
    "SoftDISC": lambda **o: SoftDISC(OverlapLoss(), C=5.0, **o),
    "LSVM": lambda **o: LSVM(OverlapLoss(), C=5.0, **o),
    "self-paced": lambda **o: LSVM(OverlapLoss(), C=5.0, cccp="self_paced", **o),
    "ILSVM": lambda **o: ILSVM(OverlapLoss(), C=5.0, **o),
    "EM": lambda **o: EM(OverlapLoss(), C=5.0, **o),
    "M3E": lambda **o: M3E(OverlapLoss(), C=5.0, **o),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def network():
    torch.manual_seed(0)
    return nn.Linear(4, 3, bias=False)


def weights(p, columns=1, seed=0):
    prior = torch.randn(p.candidates.n_candidates, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return prior[:, 0] if columns == 1 else prior


def at(p, h, strength=1.0):
    """(T,) log weights that prefer the candidates h (n,)."""
    return strength * torch.zeros(p.candidates.n_candidates, dtype=torch.float64).index_fill(0, p.candidates.offsets + h, 1.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_equal_weights_are_no_prior_to_the_last_digit(name):
    p = problem(1, n=10, signal=3)
    alone = LEARNERS[name]().fit(p.candidates, p.y)
    prior = 0.7 + 2.3 * p.candidates.sample[:, None] + torch.tensor([0.1, 5.0, -3.0])
    for same in (prior[:, 0], prior):
        model = LEARNERS[name]().fit(p.candidates, p.y, prior=same)
        assert torch.equal(model.coef_, alone.coef_)
        assert model.objective_ == alone.objective_
        assert torch.equal(model.predict_latent_proba(p.candidates, p.y), alone.predict_latent_proba(p.candidates, p.y))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_prior_given_to_fit_is_one_of_the_candidates(name, columns):
    p = problem(2, n=8, signal=3)
    prior = weights(p, columns)
    one = LEARNERS[name]().fit(p.candidates, p.y, prior=prior)
    two = LEARNERS[name]().fit(p.candidates.with_prior(prior), p.y)
    assert torch.equal(one.coef_, two.coef_)


def test_a_prior_is_not_given_twice_and_fits_the_classes():
    p = problem(0)
    with pytest.raises(ValueError, match="the candidates have a prior already"):
        DISC().fit(p.candidates.with_prior(weights(p)), p.y, prior=weights(p))
    for model in (DISC(), LSVM(), EM(), DISC(init="random")):
        with pytest.raises(ValueError, match="one column for each of 3 classes, but it has 4 columns"):
            model.fit(p.candidates, p.y, prior=weights(p, 4))
    with pytest.raises(ValueError, match=r"prior must hold log weights of shape \(T,\) or \(T, K\)"):
        DISC().fit(p.candidates, p.y, prior=weights(p)[1:])
    with pytest.raises(ValueError, match="init='prior' needs a prior of h"):
        LSVM(init="prior").fit(p.candidates, p.y)


@pytest.mark.parametrize("name", ["DISC", "DISC slack", "DISC uniform", "DISC ssd"])
def test_p_theta_of_a_very_strong_prior_is_a_delta_that_theta_cannot_move(name):
    p = problem(3, n=8, signal=3)
    model = LEARNERS[name]().fit(p.candidates, p.y, prior=at(p, p.h, 1e6))
    found = model.predict_latent_proba(p.candidates.with_prior(at(p, p.h, 1e6)), p.y)
    torch.testing.assert_close(found, at(p, p.h).to(found))
    assert model.history_[-1]["diversity"] == pytest.approx(0, abs=1e-9)


def test_a_very_strong_prior_is_disc_with_those_losses():
    """(11) with P_θ a delta at h: the loss is measured from h, only h* is still free; so it cannot end above the start of Supervised."""
    p = problem(4, n=10, signal=4)
    model = DISC(OverlapLoss(), C=5.0, tol=1e-6).fit(p.candidates, p.y, prior=at(p, p.h, 1e6))
    supervised = Supervised(OverlapLoss(), C=5.0, tol=1e-6).fit(p.candidates, p.y, h=p.h)
    assert model.objective_ <= supervised.objective_ + 1e-4  # its h* starts there, and every step lowers (11)
    assert model.history_[-1]["theta_norm"] == pytest.approx(0, abs=1e-6)


def test_em_with_a_very_strong_prior_puts_the_posterior_there():
    p = problem(3, n=8, signal=3)
    candidates = p.candidates.with_prior(at(p, p.h, 1e6))
    model = EM(C=5.0).fit(candidates, p.y)
    found = model.predict_latent_proba(candidates, p.y)
    torch.testing.assert_close(found, at(p, p.h).to(found))


@pytest.mark.parametrize("columns", [1, 3])
def test_em_maximises_the_weighted_likelihood(columns):
    p = problem(1, n=9, signal=3)
    p.candidates = p.candidates.with_prior(weights(p, columns), strength=2.0)
    model = EM(C=10.0, tol=1e-9, max_iter=500).fit(p.candidates, p.y)
    added = class_prior(p.candidates, model.joint_).numpy()
    w = model.coef_.flatten().numpy()

    def objective(v):
        e = np.exp(scores(p, v) + added)
        each = [np.log(e[list(p.of(i))].sum() / e[list(p.of(i)), y].sum()) for i, y in enumerate(p.y.tolist())]
        return 0.5 * float(v @ v) + 10.0 * np.mean(each)

    assert model.objective_ == pytest.approx(objective(w), rel=1e-9)
    gradient = [(objective(w + 1e-6 * e) - objective(w - 1e-6 * e)) / 2e-6 for e in np.eye(len(w))]
    assert np.abs(gradient).max() < 2e-3
    own = (scores(p, w) + added)[np.arange(len(added)), p.y[p.candidates.sample]]
    e = torch.as_tensor(np.exp(own))
    expected = e / segment_sum(e, p.candidates.counts)[p.candidates.sample]
    torch.testing.assert_close(model.predict_latent_proba(p.candidates, p.y), expected)
    plain = model.predict(p.candidates.with_prior(None))
    assert all(torch.equal(a, b) for a, b in zip(model.predict(p.candidates), plain, strict=True))


@pytest.mark.parametrize("name", LEARNERS)
def test_the_start_prior_is_its_most_probable_h_and_p_theta_is_the_prior(name):
    p = problem(5, n=8)
    candidates = p.candidates.with_prior(at(p, p.h, 2.0))
    model = LEARNERS[name](init="prior")
    model.begin(candidates, p.y)
    t, e = model._training, candidates.prior.exp()
    believed = e / segment_sum(e, candidates.counts)[candidates.sample]
    if name in ("LSVM", "self-paced", "ILSVM"):
        assert torch.equal(t.start, at(p, p.h))
    elif name not in ("EM", "M3E", "SoftDISC"):
        assert torch.equal(t.start, at(p, p.h))
        torch.testing.assert_close(t.p, believed.to(t.p))
    else:
        torch.testing.assert_close(t.p, believed.to(t.p))
    model.step()


@pytest.mark.parametrize("make", [LSVM, ILSVM, M3E])
def test_learners_of_a_margin_take_the_prior_for_their_start_alone(make):
    p = problem(6, n=8)
    one = make(C=5.0, init="central").fit(p.candidates, p.y)
    two = make(C=5.0, init="central").fit(p.candidates, p.y, prior=weights(p))
    assert torch.equal(one.coef_, two.coef_)
    found = two.predict_latent_proba(p.candidates.with_prior(weights(p)), p.y)
    assert torch.equal(found, one.predict_latent_proba(p.candidates, p.y))


def test_where_h_is_known_the_prior_changes_nothing():
    p = problem(7, n=8)
    one = Supervised(C=5.0).fit(p.candidates, p.y, h=p.h)
    two = Supervised(C=5.0).fit(p.candidates, p.y, h=p.h, prior=weights(p))
    assert torch.equal(one.coef_, two.coef_)
    model = DISC(C=5.0).fit(p.candidates, p.y, h=p.h, prior=weights(p, seed=3))
    torch.testing.assert_close(model._training.p, at(p, p.h))


def test_every_slack_step_lowers_11_under_a_prior():
    p = problem(8, n=12, signal=2)
    model = DISC(OverlapLoss(), C=20.0, theta_bound="slack").fit(p.candidates, p.y, prior=weights(p, 3))
    values = [row["objective"] for row in model.history_]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(values))


def test_a_path_takes_a_prior():
    p = problem(9, n=8)
    path = fit_path(DISC(), p.candidates, p.y, C=[1.0, 5.0], prior=weights(p))
    first = DISC(C=1.0).fit(p.candidates, p.y, prior=weights(p))
    assert torch.equal(path[0].coef_, first.coef_)
