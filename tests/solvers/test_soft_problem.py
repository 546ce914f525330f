"""The dissimilarity of two soft distributions against double loops, differences and its limit."""

import pytest
import references
import torch
from references import LOSSES, random_problem

from lvmdc import dissimilarity
from lvmdc.distributions import Conditional, Delta, Joint, LinearPrediction, LogLinear
from lvmdc.inference import best
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers.soft import SoftProblem

UNKNOWN = torch.full((4,), -1)
SETTINGS = {"C": 3.0, "J": 0.2, "beta": 0.3}


def setting(loss, seed=0):
    problem = random_problem(seed=seed)
    generator = torch.Generator().manual_seed(seed)
    shape = (problem.n_classes, problem.candidates.n_features)
    w, theta = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return problem, ExpectedLoss(LOSSES[loss], problem.candidates, problem.y, problem.n_classes), w, theta


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_objective_is_the_one_by_double_loops(loss, temperature):
    problem, bound, w, theta = setting(loss)
    c = problem.candidates
    value = SoftProblem(LinearPrediction(w), LogLinear(theta), bound, UNKNOWN, temperature=temperature, **SETTINGS).value()
    rows = [references.softmax(r) for r in ((c.features[b : b + n] @ w.T / temperature).flatten().tolist() for b, n in pairs(c))]
    q = Joint(c, torch.tensor([x for row in rows for x in row], dtype=torch.float64).reshape(-1, problem.n_classes))
    scores = [(c.features[b : b + n] @ theta[k]).tolist() for (b, n), k in zip(pairs(c), problem.y, strict=True)]
    p = Conditional(c, problem.y, torch.tensor([x for s in scores for x in references.softmax(s)], dtype=torch.float64))
    D = references.diversity(p, q, LOSSES[loss])
    D = D - 0.3 * references.diversity(p, p, LOSSES[loss]) - 0.7 * references.diversity(q, q, LOSSES[loss])
    expected = 0.5 * (w**2).sum() + 0.1 * (theta**2).sum() + 3.0 * D.mean()
    torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dissimilarity(p, q, LOSSES[loss], 0.3).double(), D, rtol=1e-5, atol=1e-5)


def pairs(candidates):
    return list(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("known", [[-1] * 4, [1, -1, 6, -1]])
def test_its_gradient_is_that_of_differences(loss, known):
    _, bound, w, theta = setting(loss)
    p_w, p_theta = LinearPrediction(w), LogLinear(theta)

    def value(w, theta):
        one = lambda *_: p_w.joint.scores(bound.candidates, w.flatten())  # noqa: E731
        two = lambda *_: torch.func.functional_call(p_theta, {"theta": theta}, (bound.candidates, bound.y)).p.log()  # noqa: E731
        problem = SoftProblem(p_w, p_theta, bound, torch.tensor(known), temperature=0.7, **SETTINGS)
        p = references_posterior(problem, two())
        return (problem.against(one(), p) - 0.3 * bound.diversity(p)).mean()

    assert torch.autograd.gradcheck(value, (w.requires_grad_(), theta.requires_grad_()))


def references_posterior(problem, log_p):
    class Given:
        def log_prob(self, *_):
            return log_p

    problem.p_theta = Given()
    return problem.posterior()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_at_temperature_zero_it_is_the_dissimilarity_of_the_delta(loss, seed):
    problem, bound, w, theta = setting(loss, seed)
    p_w, p_theta = LinearPrediction(w), LogLinear(theta)
    p = p_theta(problem.candidates, problem.y)
    scores = p_w.scores(problem.candidates)
    y, rows = best(problem.candidates, scores)
    delta = Delta(problem.candidates, y, problem.candidates.index(rows))
    paper = dissimilarity(p, delta, LOSSES[loss], 0.3)
    far, near = ((SoftProblem(p_w, p_theta, bound, UNKNOWN, temperature=T, **SETTINGS).against(scores, p.p)) for T in (1.0, 1e-4))
    paper_bound = bound.expected_at(p.p, y, rows) - 0.3 * bound.diversity(p.p)
    torch.testing.assert_close(near - 0.3 * bound.diversity(p.p), paper_bound, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(paper.double(), paper_bound.double(), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(far, near, atol=1e-2)


def test_scores_of_minus_infinity_have_no_mass_and_no_derivative():
    problem, bound, _, _ = setting("overlap")
    scores = problem.scores.masked_fill(torch.arange(10)[:, None] % 3 == 1, -torch.inf).requires_grad_()
    q = Joint.softmax(problem.candidates, scores, 0.1).p
    bound.joint_diversity(q).sum().backward()
    assert not q[scores == -torch.inf].any()
    assert bool(scores.grad.isfinite().all())


def test_while_theta_waits_the_start_stands_for_it():
    problem, bound, w, theta = setting("overlap")
    waiting = SoftProblem(LinearPrediction(w), LogLinear(theta), bound, UNKNOWN, temperature=1.0, start=problem.p, **SETTINGS)
    assert len(waiting.parameters) == 1
    p, q = Conditional(problem.candidates, problem.y, problem.p), Joint.softmax(problem.candidates, problem.candidates.features @ w.T)
    D = dissimilarity(p, q, LOSSES["overlap"], 0.3).mean()
    expected = 0.5 * (w**2).sum() + 0.1 * (theta**2).sum() + 3.0 * D
    torch.testing.assert_close(waiting.value().detach(), expected)
