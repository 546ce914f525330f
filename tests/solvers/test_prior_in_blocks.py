"""The prior of h in the θ block and in the likelihood of the labels, by plain sums."""

import math

import numpy as np
import pytest
import torch
from learners.problems import LOSSES, SharedWeights, delta, problem
from test_likelihood_start import by_hand

from lvmdc.distributions import LogLinear
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import PosteriorProblem, lbfgs, log_linear_lbfgs, ssd, subgradient
from lvmdc.solvers.initial import ENTROPY, _Problem, likelihood_posterior
from lvmdc.solvers.likelihood import ExpectedLikelihood, Likelihood, class_prior, posterior

JOINTS = {"class blocks": ClassBlocks(3), "a joint map that lacks candidates": SharedWeights(3)}


def weights(p, columns=3, seed=5, strength=1.0):
    prior = np.random.default_rng(seed).normal(size=(p.candidates.n_candidates, columns))
    return strength * torch.as_tensor(prior if columns > 1 else prior[:, 0])


def with_prior(p, columns=3, strength=1.0):
    p.candidates = p.candidates.with_prior(weights(p, columns), strength)
    return p


def unknown(p):
    return torch.full_like(p.y, -1)


# ---- the θ block -----------------------------------------------------------------------------------------------------


def block(p, name="overlap", theta_bound="prediction", theta=None):
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(3, p.candidates.n_features)) if theta is None else theta
    scores = torch.as_tensor(rng.normal(size=(p.candidates.n_candidates, 3)))
    bound = ExpectedLoss(LOSSES[name], p.candidates, p.y, 3)
    return PosteriorProblem(LogLinear(torch.as_tensor(theta)), bound, scores, 0.3, 7.0, 0.4, theta_bound, unknown(p))


@pytest.mark.parametrize("name", ["zero_one", "overlap"])
@pytest.mark.parametrize("columns", [1, 3])
def test_expected_loss_and_diversity_are_under_the_weighted_distribution(name, columns):
    p = with_prior(problem(3, n=6, most=5), columns)
    prob = block(p, name)
    theta, x, prior = prob.model.theta.detach().numpy(), p.candidates.features.numpy(), p.candidates.prior.numpy()
    q, table = prob.posterior().detach(), prob.scores.numpy()
    agreement, diversity = prob.agreement(q), prob.loss.diversity(q)
    for i, y in enumerate(p.y.tolist()):
        rows, boxes = list(p.of(i)), p.candidates.boxes.numpy()[list(p.of(i))]
        e = np.array([math.exp((prior[r] if columns == 1 else prior[r, y]) + theta[y] @ x[r]) for r in rows])
        e /= e.sum()
        np.testing.assert_allclose(q[rows], e, rtol=1e-9)
        _, h_hat, y_hat = max((table[r, k], h, k) for h, r in enumerate(rows) for k in range(3))
        against = sum(e[g] * delta(name, boxes, y, g, y_hat, h_hat) for g in range(len(rows)))
        pairs = sum(e[g] * e[h] * delta(name, boxes, y, g, y, h) for g in range(len(rows)) for h in range(len(rows)))
        assert float(agreement[i]) == pytest.approx(against, abs=1e-6)
        assert float(diversity[i]) == pytest.approx(pairs, abs=1e-6)


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_the_derivative_is_that_of_differences_and_the_mean_over_samples(theta_bound):
    p = with_prior(problem(1, n=5, most=4))
    prob = block(p, theta_bound=theta_bound)
    (gradient,) = torch.autograd.grad(prob.value(), prob.parameters)
    theta = prob.model.theta
    with torch.no_grad():
        for k, j in np.ndindex(*theta.shape):
            values = []
            for step in (1e-5, -1e-5):
                theta[k, j] += step
                values.append(float(prob.value()))
                theta[k, j] -= step
            assert float(gradient[k, j]) == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-4)
    each = torch.stack([subgradient(prob.on_sample(i))[0] for i in range(len(p.y))])
    torch.testing.assert_close(prob.C * each.mean(dim=0), gradient)


def test_the_solvers_agree_on_the_optimum_under_a_prior():
    p = with_prior(problem(2, n=8, most=4), strength=2.0)
    ends = {}
    for name in ("lbfgs", "log_linear", "ssd"):
        prob = block(p, theta=np.zeros((3, p.candidates.n_features)))
        before = float(prob.value().detach())
        if name == "ssd":
            gained = ssd(prob, seed=0, epochs=60)
        else:
            gained = lbfgs(prob, 1e-9) if name == "lbfgs" else log_linear_lbfgs(prob, prob.model, 1e-9)
        ends[name] = float(prob.value().detach())
        assert before - ends[name] == pytest.approx(gained, abs=1e-5)
    assert ends["lbfgs"] == pytest.approx(ends["log_linear"], abs=1e-4)
    assert ends["log_linear"] - 1e-4 <= ends["ssd"] < before


# ---- the likelihood --------------------------------------------------------------------------------------------------


def scaled_by_hand(p, joint):
    """(T, K): log of the weights over their mean among the candidates that the class has."""
    there = (joint.scores_at_origin(p.candidates) > -torch.inf).numpy()
    prior = np.broadcast_to(p.candidates.prior.numpy().reshape(len(there), -1), there.shape)
    found = np.zeros(there.shape)
    for i in range(len(p.y)):
        for k in range(there.shape[1]):
            rows = [r for r in p.of(i) if there[r, k]]
            if rows:
                found[rows, k] = prior[rows, k] - math.log(np.mean(np.exp(prior[rows, k])))
    return torch.as_tensor(found)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("name", JOINTS)
def test_a_class_is_as_likely_at_the_origin_as_without_a_prior(name, columns):
    p = problem(0, n=10, most=5)
    origin = JOINTS[name].scores_at_origin(p.candidates).double()
    before = Likelihood(p.candidates, p.y, unknown(p)).each(origin)
    with_prior(p, columns, strength=4.0)
    log_prior = class_prior(p.candidates, JOINTS[name])
    torch.testing.assert_close(log_prior, scaled_by_hand(p, JOINTS[name]))
    torch.testing.assert_close(Likelihood(p.candidates, p.y, unknown(p), log_prior).each(origin), before)


@pytest.mark.parametrize("name", JOINTS)
def test_the_likelihood_its_bound_and_its_derivative_are_those_of_plain_sums(name):
    p = with_prior(problem(4, n=9, most=5))
    rows = p.candidates.offsets + p.h
    known = torch.where((torch.arange(9) % 4 == 0) & JOINTS[name].has(p.candidates, p.y)[rows], rows, -1)
    log_prior = class_prior(p.candidates, JOINTS[name])
    free = torch.randn(log_prior.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    scores = JOINTS[name].scores_at_origin(p.candidates).double() + free
    value = by_hand(p, known, scores + scaled_by_hand(p, JOINTS[name]))
    (slope,) = torch.autograd.grad(value, free)
    scores = scores.detach()
    assert float(Likelihood(p.candidates, p.y, known, log_prior).each(scores).mean()) == pytest.approx(value.item(), rel=1e-9)
    belief = posterior(p.candidates, scores, p.y, known, log_prior)
    risk = ExpectedLikelihood(p.candidates, p.y, belief, log_prior)
    torch.testing.assert_close(risk.weights(scores), slope, rtol=1e-6, atol=1e-9)
    assert risk.value(scores) == pytest.approx(value.item(), rel=1e-9)


# ---- the start by the likelihood ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JOINTS)
def test_the_start_has_a_third_of_the_entropy_of_the_prior(name):
    p = with_prior(problem(1, n=14, d=5, most=6, signal=3))
    start = _Problem(p.candidates, p.y, JOINTS[name], unknown(p))
    origin = start.origin()
    assert origin.entropy == pytest.approx(start.most_entropy, rel=1e-6)
    found = likelihood_posterior(p.candidates, p.y, JOINTS[name], unknown(p))
    assert start.entropy(found) == pytest.approx(ENTROPY * start.most_entropy, rel=1e-2)


@pytest.mark.parametrize("name", JOINTS)
def test_equal_weights_give_the_start_without_a_prior_to_the_last_digit(name):
    p = problem(2, n=14, d=5, most=6, signal=3)
    found = likelihood_posterior(p.candidates, p.y, JOINTS[name], unknown(p))
    constant = 0.3 + p.candidates.sample[:, None] * torch.tensor([1.1, 2.3, -7.7])
    for prior in (constant[:, 0], constant):
        assert torch.equal(likelihood_posterior(p.candidates.with_prior(prior), p.y, JOINTS[name], unknown(p)), found)


@pytest.mark.parametrize("strength", [50.0, 1e4, 1e8])
def test_a_strong_prior_is_the_start(strength):
    p = problem(3, n=10, most=5)
    rows = p.candidates.offsets + p.h
    p.candidates = p.candidates.with_prior(torch.zeros(p.candidates.n_candidates).index_fill(0, rows, 1.0), strength)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), unknown(p))
    torch.testing.assert_close(found[rows], torch.ones(10, dtype=torch.float64))


def test_a_prior_of_another_number_of_classes_is_refused():
    p = with_prior(problem(0, n=6), columns=2)
    with pytest.raises(ValueError, match="one column for each of 3 classes, but it has 2 columns"):
        likelihood_posterior(p.candidates, p.y, ClassBlocks(3), unknown(p))
