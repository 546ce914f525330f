"""The objective of a mini-batch against that of the learners, differences and autograd."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from references import LOSSES, random_problem

from lvmdc import DISC
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.lightning.batches import BatchObjective, TrainingSet
from lvmdc.losses import Loss

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")


def samples_of(problem, loss, init="random", known=None):
    """A small double-precision problem with its start, and a learner that has seen it."""
    learner = DISC(loss=loss, C=3.0, J=0.2, beta=0.3, n_classes=problem.n_classes, init=init)
    learner.begin(problem.candidates, problem.y, h=known)
    work = learner._training
    return learner, TrainingSet(problem.candidates, work.y, learner.loss_, learner.n_classes_, work.start, work.known)


def at(problem, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = (problem.n_classes, problem.candidates.n_features)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(problem.candidates.features.dtype) for _ in range(2)]


@pytest.mark.parametrize("loss", LOSSES)
def test_measure_is_the_learners_own_objective(problem, loss):
    learner, samples = samples_of(problem, LOSSES[loss], known=[1, -1, -1, 0])
    w, theta = at(problem)
    learner.model_ = LogLinear(theta)
    learner._refresh()
    work = learner._training
    work.cccp.point = work.hinge.at(w.flatten().double())
    found, measures = BatchObjective(learner, LinearPrediction(w), learner.model_).measure(samples)
    assert found.terms() == pytest.approx(learner._objective().terms())
    assert measures == pytest.approx(work.measures())


def weighted(problem):
    """The same problem with a prior of h for each class."""
    shape = (problem.candidates.n_candidates, problem.n_classes)
    prior = 2 * torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return replace(problem, candidates=problem.candidates.with_prior(prior))


def test_with_a_prior_measure_is_the_learners_own_objective_too(problem):
    problem = weighted(problem)
    learner, samples = samples_of(problem, LOSSES["lopsided"], init="prior")
    w, theta = at(problem)
    learner.model_ = LogLinear(theta)
    learner._refresh()
    work = learner._training
    work.cccp.point = work.hinge.at(w.flatten().double())
    found, measures = BatchObjective(learner, LinearPrediction(w), learner.model_).measure(samples)
    assert found.terms() == pytest.approx(learner._objective().terms())
    assert measures == pytest.approx(work.measures())


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_batches_of_one_size_average_to_the_whole(problem, theta_bound, prior):
    problem = weighted(problem) if prior else problem
    learner, samples = samples_of(problem, LOSSES["lopsided"])
    learner.theta_bound = theta_bound
    w, theta = at(problem)
    objective = BatchObjective(learner, LinearPrediction(w), LogLinear(theta))
    parts = [objective.value(samples.batch(torch.tensor(index))) for index in ([2, 0], [3, 1])]
    torch.testing.assert_close(torch.stack(parts).mean(), objective.value(samples.batch(torch.arange(4))))


@pytest.mark.parametrize("loss", LOSSES)
def test_with_the_slack_bound_the_gradient_is_that_of_the_objective(loss):
    problem = random_problem()
    learner, samples = samples_of(problem, LOSSES[loss])
    learner.theta_bound = "slack"
    w, theta = (v.double() for v in at(problem))
    candidates = problem.candidates.to(dtype=torch.float64)
    samples.candidates = candidates
    p_w, p_theta = LinearPrediction(w), LogLinear(theta)
    value = BatchObjective(learner, p_w, p_theta).value(samples.batch(torch.arange(4)))
    value.backward()

    def brute(w, theta):  # (11) as it is written, sample by sample
        total, first = 0.5 * (w**2).sum() + 0.5 * learner.J * (theta**2).sum(), 0
        for i, count in enumerate(candidates.counts.tolist()):
            rows = torch.arange(first, first + count)
            x, y = candidates.features[rows], problem.y[i]
            p = torch.softmax(x @ theta[y], 0)
            deltas = [learner.loss_.delta_at(candidates, y, rows[:, None], k, rows).double() for k in torch.arange(problem.n_classes)]
            delta = deltas[int(y)]  # (h', h)
            every = [x @ w[k] + p @ deltas[k] for k in range(problem.n_classes)]
            xi = torch.cat(every).max() - (x @ w[y]).max()
            total = total + learner.C / len(candidates) * (xi - learner.beta * p @ delta @ p)
            first += count
        return total

    one, two = w.clone().requires_grad_(), theta.clone().requires_grad_()
    brute(one, two).backward()
    torch.testing.assert_close(p_w.w.grad, one.grad, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(p_theta.theta.grad, two.grad, atol=1e-6, rtol=1e-6)


def test_gradients_agree_with_differences(problem):
    learner, samples = samples_of(problem, LOSSES["overlap"])
    samples.candidates = problem.candidates.to(dtype=torch.float64)
    w, theta = (v.double() for v in at(problem))
    objective = BatchObjective(learner, LinearPrediction(w), LogLinear(theta))
    batch = samples.batch(torch.tensor([0, 2, 3]))

    def of_theta(t):
        problem = objective.theta_problem(batch, objective.p_w.scores(batch.candidates).detach())
        return problem.value(torch.func.functional_call(objective.p_theta, {"theta": t}, (batch.candidates, batch.y)).p)

    def of_w(v, warm):
        scores = LinearPrediction(v).joint.scores(batch.candidates, v.flatten())
        return objective.hinge(batch, scores, objective.posterior(batch, scores), warm)

    assert torch.autograd.gradcheck(of_theta, theta.requires_grad_())
    for warm in (True, False):
        assert torch.autograd.gradcheck(partial(of_w, warm=warm), w.clone().requires_grad_())


def test_while_warm_the_truth_is_the_start_and_theta_waits(problem):
    learner, samples = samples_of(problem, LOSSES["zero_one"])
    w, theta = at(problem)
    batch = samples.batch(torch.arange(4))
    warm, fixed = (BatchObjective(learner, LinearPrediction(w), LogLinear(theta)) for _ in range(2))
    warm.value(batch, warm=True).backward()
    assert not warm.p_theta.theta.grad.any()
    scores = fixed.p_w.scores(batch.candidates)
    p = fixed.posterior(batch, scores)
    as_known = replace(batch, known=batch.start.nonzero().flatten())
    fixed.hinge(as_known, scores, p, warm=False).backward()
    torch.testing.assert_close(warm.p_w.w.grad, fixed.p_w.w.grad)


def test_a_loss_that_looks_rows_up_finds_them_in_a_batch(problem):
    place = torch.rand(problem.candidates.n_candidates, generator=torch.Generator().manual_seed(3))

    class ByRow(Loss):
        def delta(self, y1, h1, y2, h2):
            return (place[h1.row] - place[h2.row]).abs() + (y1 != y2)

    samples = TrainingSet(problem.candidates, problem.y, ByRow(), 3, problem.p, torch.full_like(problem.y, -1))
    whole, part = samples.batch(torch.arange(4)), samples.batch(torch.tensor([2, 0]))
    expected = whole.bound.diversity(problem.p)[[2, 0]]
    torch.testing.assert_close(part.bound.diversity(part.start), expected)
