import numpy as np
import pytest
import torch
from learners.problems import LOSSES, delta, expected_loss, problem, softmax_posterior

from lvmdc import FunctionLoss, ZeroOneLoss
from lvmdc.distributions import LogLinear
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import PosteriorProblem, lbfgs, log_linear_lbfgs, ssd, subgradient

J, C, BETA = 0.3, 7.0, 0.4


def block(p, name="overlap", theta_bound="prediction", seed=0, known=None, loss=None, theta=None) -> PosteriorProblem:
    """The θ block at a random w and θ, where nothing ties."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(p.n_classes, p.candidates.for_phi().n_features)) if theta is None else theta
    scores = torch.as_tensor(rng.normal(size=(p.candidates.n_candidates, p.n_classes)))
    scores[torch.arange(p.candidates.n_candidates), p.y[p.candidates.sample]] += 1  # else most predictions are wrong
    bound = ExpectedLoss(loss or LOSSES[name], p.candidates, p.y, p.n_classes)
    known = torch.full_like(p.y, -1) if known is None else known
    return PosteriorProblem(LogLinear(torch.as_tensor(theta)), bound, scores, J, C, BETA, theta_bound, known)


def by_covariance(p, name, prob: PosteriorProblem, i: int) -> np.ndarray:
    """λθ + ∇B_i − β∇H_i, where ∇E_p[f] = Σ_h p(h) (f(h) − E_p[f]) Φ(h) in the block of y_i."""
    theta = prob.model.theta.detach().numpy()
    x, belief = p.candidates.for_phi().features.double().numpy(), softmax_posterior(p, theta)
    rows, y = list(p.of(i)), int(p.y[i])
    boxes, q = p.candidates.boxes.double().numpy()[rows], belief[rows]
    table = prob.scores.numpy()
    if prob.theta_bound == "slack":
        table = table + expected_loss(name, p, torch.as_tensor(belief))
    _, h_hat, y_hat = max((table[r, k], h, k) for h, r in enumerate(rows) for k in range(p.n_classes))
    against = np.array([delta(name, boxes, y, g, y_hat, h_hat) for g in range(len(rows))])
    pairs = np.array([[delta(name, boxes, y, g, y, h) for h in range(len(rows))] for g in range(len(rows))])
    both = pairs @ q + q @ pairs
    gradient = J / C * theta
    gradient[y] += (q * (against - q @ against)) @ x[rows] - BETA * (q * (both - q @ both)) @ x[rows]
    return gradient


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_the_subgradient_is_the_closed_form_of_17_corrected(name, theta_bound):
    p = problem(3, n=6, most=5, phi=3)
    prob = block(p, name, theta_bound)
    for i in range(len(p.y)):
        (gradient,) = subgradient(prob.on_sample(i))
        np.testing.assert_allclose(gradient.numpy(), by_covariance(p, name, prob, i), atol=1e-6)


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
def test_the_subgradient_is_that_of_finite_differences(name, theta_bound):
    p = problem(1, n=5, most=4)
    prob = block(p, name, theta_bound, seed=1)
    (gradient,) = torch.autograd.grad(prob.value(), prob.parameters)
    theta, eps = prob.model.theta, 1e-5
    for k in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            with torch.no_grad():
                theta[k, j] += eps
                above = float(prob.value())
                theta[k, j] -= 2 * eps
                below = float(prob.value())
                theta[k, j] += eps
            assert float(gradient[k, j]) == pytest.approx((above - below) / (2 * eps), abs=1e-4)


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_the_subgradients_of_the_samples_average_to_that_of_the_block(theta_bound):
    p = problem(2, n=7)
    known = torch.where(torch.arange(7) == 3, p.candidates.offsets + p.h, -1)
    prob = block(p, "cost", theta_bound, known=known)
    (whole,) = torch.autograd.grad(prob.value() / C, prob.parameters)
    parts = [subgradient(prob.on_sample(i))[0] for i in range(7)]
    torch.testing.assert_close(torch.stack(parts).mean(0), whole, atol=1e-8, rtol=0)


def test_a_loss_that_looks_up_rows_is_the_same_on_one_sample():
    p = problem(2, n=5)
    place = torch.rand(p.candidates.n_candidates, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lookup = FunctionLoss(lambda y1, h1, y2, h2: torch.where(y1 == y2, (place[h1] - place[h2]).abs(), 1.0), latent="row")
    prob = block(p, loss=lookup)
    (whole,) = torch.autograd.grad(prob.value() / C, prob.parameters)
    parts = [subgradient(prob.on_sample(i))[0] for i in range(5)]
    torch.testing.assert_close(torch.stack(parts).mean(0), whole, atol=1e-8, rtol=0)


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_gradcheck_of_the_value(theta_bound):
    p = problem(4, n=4, phi=2)
    prob = block(p, "function", theta_bound, seed=4)

    def value(theta: torch.Tensor) -> torch.Tensor:
        prob.model.__dict__["theta"] = theta  # in place of the parameter
        x = p.candidates.phi
        prob.model.scores = lambda candidates, y: (x * theta[y[candidates.sample]]).sum(1)
        belief = prob.posterior()
        return (prob.agreement(belief) - BETA * prob.loss.diversity(belief)).mean()

    theta = prob.model.theta.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(value, theta, atol=1e-6)


def test_a_known_h_makes_the_posterior_a_delta_whatever_theta_is():
    p = problem(2, n=6)
    known = torch.where(torch.arange(6) % 2 == 0, p.candidates.offsets + p.h, -1)
    belief = block(p, known=known).posterior().detach()
    assert belief[known[known >= 0]].tolist() == [1.0] * 3
    assert float(belief.sum()) == pytest.approx(6)
    free = block(p).posterior().detach()
    mask = (known < 0)[p.candidates.sample]
    torch.testing.assert_close(belief[mask], free[mask])


def test_zero_one_agreement_and_diversity_are_their_closed_forms():
    p = problem(5, n=6, most=5)
    prob = block(p, "zero_one")
    belief = prob.posterior().detach()
    y_hat, rows = prob.prediction
    sample = p.candidates.sample
    squares = torch.zeros(6, dtype=torch.float64).index_add(0, sample, belief**2)
    right = torch.where(y_hat == p.y, 1 - belief[rows], 1.0)
    torch.testing.assert_close(prob.agreement(belief), right)
    torch.testing.assert_close(ExpectedLoss(ZeroOneLoss(), p.candidates, p.y, 3).diversity(belief), 1 - squares)


# ---- L-BFGS and stochastic subgradients ------------------------------------------------------------------------------


def optimum_by_scipy(prob: PosteriorProblem) -> float:
    from scipy.optimize import minimize

    theta = prob.model.theta
    kept = theta.detach().clone()

    def value(v: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.no_grad():
            theta.copy_(torch.as_tensor(v).reshape(theta.shape))
        f = prob.value()
        (g,) = torch.autograd.grad(f, prob.parameters)
        return float(f.detach()), g.numpy().ravel()

    result = minimize(value, kept.numpy().ravel(), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    with torch.no_grad():
        theta.copy_(kept)
    return float(result.fun)


def on_cached_scores(prob: PosteriorProblem, tol: float) -> float:
    return log_linear_lbfgs(prob, prob.model.linear, tol)


QUASI_NEWTON = pytest.mark.parametrize("lower", [lbfgs, on_cached_scores])


@QUASI_NEWTON
@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
@pytest.mark.parametrize("seed", range(3))
def test_lbfgs_comes_as_low_as_scipy_where_the_block_is_smooth(name, seed, lower):
    p = problem(seed, n=8)
    prob = block(p, name, seed=seed, theta=np.zeros((3, 4)))
    first, best = float(prob.value().detach()), optimum_by_scipy(prob)
    gained = lower(prob, tol=1e-8)
    assert float(prob.value().detach()) == pytest.approx(first - gained)
    assert first - gained <= best + 1e-3 * (first - best)
    assert all(parameter.grad is None for parameter in prob.parameters)


@QUASI_NEWTON
@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("seed", range(5))
def test_lbfgs_never_raises_the_objective(theta_bound, seed, lower):
    prob = block(problem(seed, n=10, most=5), "overlap", theta_bound, seed)
    first = float(prob.value().detach())
    for _ in range(3):
        gained = lower(prob, tol=1e-3)
        assert gained >= 0
        assert float(prob.value().detach()) == pytest.approx(first - gained)
        first -= gained


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("seed", range(3))
def test_ssd_lowers_the_objective_and_stays_in_its_ball(theta_bound, seed):
    p = problem(seed, n=10)
    prob = block(p, "zero_one", theta_bound, seed, theta=np.zeros((3, 4)))
    first = float(prob.value().detach())
    gained = ssd(prob, seed=0, epochs=20)
    assert gained > 0
    assert float(prob.value().detach()) == pytest.approx(first - gained)
    most = int(p.candidates.counts.max()) - 1  # Σ_h' Δ(h', h), above any self-diversity
    assert float(prob.model.theta.detach().norm()) <= (2 * (first + C * BETA * most) / J) ** 0.5 + 1e-9


def test_ssd_depends_on_its_seed_and_on_nothing_else():
    p = problem(1, n=10)
    thetas = []
    for seed in (3, 3, 4):
        prob = block(p, theta=np.zeros((3, 4)))
        ssd(prob, seed=seed, epochs=3)
        thetas.append(prob.model.theta.detach())
    assert torch.equal(thetas[0], thetas[1])
    assert not torch.equal(thetas[0], thetas[2])


def test_ssd_needs_a_regulariser():
    prob = block(problem(1))
    prob.J = 0.0
    with pytest.raises(ValueError, match=r"theta_solver='ssd' .* needs J > 0, but J is 0.0"):
        ssd(prob, seed=0)
