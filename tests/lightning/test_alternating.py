"""The module of the paper: the gradients of its steps, and the exact objective."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from given import GivenTheta, GivenW, recorded
from references import LOSSES, random_problem
from three_digits import network, tiny_data, train

from lvmdc import DISC, LSVM, OverlapLoss
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.lightning import AlternatingModule
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import TrainingSet

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")
Recorded = recorded(AlternatingModule)


def samples_of(problem, loss, init="random", known=None):
    """A small double-precision problem with its start, and a learner that has seen it."""
    learner = DISC(loss=loss, C=3.0, J=0.2, beta=0.3, n_classes=problem.n_classes, init=init)
    learner.begin(problem.candidates, problem.y, h=known)
    work = learner._training
    return learner, TrainingSet(problem.candidates, work.y, learner.loss_, learner.n_classes_, work.start, work.known)


def at(problem, seed=1):
    """Some w and θ."""
    generator = torch.Generator().manual_seed(seed)
    shape = (problem.n_classes, problem.candidates.n_features)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(problem.candidates.features.dtype) for _ in range(2)]


def module_of(learner, samples, p_w, p_theta, **options):
    module = Recorded(learner, **{"warmup_epochs": 0} | options)
    module.samples, module.weights = samples, AveragedWeights(p_w, p_theta, decay=None)
    return module


def objective(module, *index):
    """What a step on these samples lowers."""
    module.training_step(torch.tensor(index), 0)
    return module.objective


# ---- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_has_the_gradient_of_13_in_w_and_of_15_or_16_in_theta(loss, theta_bound):
    problem = random_problem()
    learner, samples = samples_of(problem, LOSSES[loss])
    learner.theta_bound = theta_bound
    w, theta = (v.double() for v in at(problem))
    samples.candidates = candidates = problem.candidates.to(dtype=torch.float64)
    p_w, p_theta = LinearPrediction(w), LogLinear(theta)
    objective(module_of(learner, samples, p_w, p_theta), 0, 1, 2, 3).backward()

    def brute(w, theta):
        """(13) and what θ minimises, as they are written, sample by sample."""
        w_value, theta_value, first = 0.5 * (w**2).sum(), 0.5 * learner.J * (theta**2).sum(), 0
        for i, count in enumerate(candidates.counts.tolist()):
            rows = torch.arange(first, first + count)
            x, y = candidates.features[rows], problem.y[i]
            p = torch.softmax(x @ theta[y], 0)
            deltas = [  # (h', h) for every class
                learner.loss_.delta_at(candidates, y, rows[:, None], torch.tensor(k), rows[None]).double() for k in range(problem.n_classes)
            ]
            scores = torch.stack([x @ w[k] for k in range(problem.n_classes)])  # (K, h)
            expected = torch.stack([p @ delta for delta in deltas])
            xi = (scores + expected).max() - (x @ w[y]).max()
            agreement = xi if theta_bound == "slack" else expected.flatten()[scores.flatten().argmax()]
            w_value = w_value + learner.C / len(candidates) * xi
            theta_value = theta_value + learner.C / len(candidates) * (agreement - learner.beta * p @ deltas[y] @ p)
            first += count
        return w_value, theta_value

    one, two = w.clone().requires_grad_(), theta.clone().requires_grad_()
    w_value, theta_value = brute(one, two)
    torch.testing.assert_close(p_w.w.grad, torch.autograd.grad(w_value, one, retain_graph=True)[0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(p_theta.theta.grad, torch.autograd.grad(theta_value, two)[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("warmup_epochs", [0, 1])
def test_gradients_agree_with_differences(problem, warmup_epochs):
    learner, samples = samples_of(problem, LOSSES["overlap"])
    samples.candidates = problem.candidates.to(dtype=torch.float64)
    w, theta = (v.double() for v in at(problem))

    def of_w(w):
        return objective(module_of(learner, samples, GivenW(w), LogLinear(theta), warmup_epochs=warmup_epochs), 0, 2, 3)

    def of_theta(theta):
        """Without the part of w, which is computed under a P_θ that is held."""
        module = module_of(learner, samples, LinearPrediction(w), GivenTheta(theta), warmup_epochs=warmup_epochs)
        batch = samples.batch(torch.tensor([0, 2, 3]))
        scores = module.p_w.scores(batch.candidates).detach()
        expected = batch.loss.expected_loss(batch.posterior(module.p_theta).detach())
        return objective(module, 0, 2, 3) - learner.C * batch.slack(scores, expected, module.h_star(batch, scores)).mean()

    assert torch.autograd.gradcheck(of_w, w.requires_grad_())
    w = w.detach()
    assert torch.autograd.gradcheck(of_theta, theta.requires_grad_())


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_batches_of_one_size_average_to_the_whole(problem, theta_bound, prior):
    problem = with_prior(problem) if prior else problem
    learner, samples = samples_of(problem, LOSSES["lopsided"])
    learner.theta_bound = theta_bound
    w, theta = at(problem)
    module = module_of(learner, samples, LinearPrediction(w), LogLinear(theta))
    parts = [objective(module, *index) for index in ([2, 0], [3, 1])]
    torch.testing.assert_close(torch.stack(parts).mean(), objective(module, 0, 1, 2, 3))


def test_at_first_h_star_is_the_start(problem):
    learner, samples = samples_of(problem, LOSSES["zero_one"])
    w, theta = at(problem)
    held, known = (LinearPrediction(w) for _ in range(2))
    objective(module_of(learner, samples, held, LogLinear(theta), warmup_epochs=1), 0, 1, 2, 3).backward()
    batch = samples.batch(torch.arange(4))
    module = module_of(learner, samples, known, LogLinear(theta))
    module.take = lambda index: replace(batch, known=batch.start.nonzero().flatten())
    module.weights.p_theta.requires_grad_(False)
    p = batch.posterior(module.p_theta)
    batch.slack(known.scores(batch.candidates), batch.loss.expected_loss(p), batch.start).mean().mul(learner.C).backward()
    torch.testing.assert_close(held.w.grad, known.w.grad + w)


def test_theta_waits_while_h_star_is_held():
    module = AlternatingModule(DISC(loss=OverlapLoss(), C=3.0), warmup_epochs=2)
    train(module, tiny_data(), epochs=2)
    assert not module.p_theta.theta.any()
    assert module.p_w.w.any()
    train(module, tiny_data(), epochs=3)
    assert module.p_theta.theta.any()


# ---- the objective -----------------------------------------------------------------------------------------------


def with_prior(problem):
    """The same problem with a prior of h for each class."""
    shape = (problem.candidates.n_candidates, problem.n_classes)
    prior = 2 * torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return replace(problem, candidates=problem.candidates.with_prior(prior))


@pytest.mark.parametrize(("loss", "prior"), [*((loss, False) for loss in LOSSES), ("lopsided", True)])
def test_the_measured_objective_is_that_of_the_learner(problem, loss, prior):
    problem = with_prior(problem) if prior else problem
    learner, samples = samples_of(problem, LOSSES[loss], "prior" if prior else "random", None if prior else [1, -1, -1, 0])
    w, theta = at(problem)
    learner.model_ = LogLinear(theta)
    learner._refresh()
    work = learner._training
    work.cccp.point = work.hinge.at(w.flatten().double())
    found, measures = module_of(learner, samples, LinearPrediction(w), learner.model_).measure_objective()
    assert found.terms() == pytest.approx(learner._objective().terms())
    assert measures == pytest.approx(work.measures())


@pytest.mark.slow
@pytest.mark.parametrize("C", [1.0, 10.0])
@pytest.mark.parametrize("kind", [LSVM, partial(DISC, J=0.001)], ids=["LSVM", "DISC"])
def test_the_default_optimizers_reach_the_exact_objective_within_two_percent(kind, C):
    data = tiny_data()
    exact = kind(loss=OverlapLoss(), C=C).fit(data.train.candidates, data.train.y)
    module = AlternatingModule(kind(loss=OverlapLoss(), C=C))
    train(module, data, epochs=100)
    assert module.history()[-1]["objective"] <= 1.02 * exact.objective_


def test_networks_and_any_optimizer_learn():
    own = {"optimizer_w": partial(torch.optim.RMSprop, lr=1e-3), "optimizer_theta": partial(torch.optim.Adagrad, lr=1e-2)}
    module = AlternatingModule(DISC(loss=OverlapLoss(), C=10.0), prediction=network(), conditional=network(seed=1), **own)
    train(module, tiny_data(), epochs=8)
    assert module.history()[-1]["objective"] < module.convergence.origin
