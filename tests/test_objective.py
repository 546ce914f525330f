import pytest
import references
import torch
from hypothesis import given
from references import LOSSES, SMALL, problems

from lvmdc.distributions import Conditional, Delta
from lvmdc.inference import best
from lvmdc.losses import ExpectedLoss
from lvmdc.objective import Objective, half_square, slack, truth_score


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@SMALL
@given(problem=problems())
def test_slack_is_the_difference_of_the_two_maxima(loss, problem):
    c, y = problem.candidates, problem.y
    expected = loss.expected_loss(c, y, problem.p, problem.n_classes)
    assert torch.allclose(expected, references.expected_loss(loss, problem), rtol=1e-5, atol=1e-6)
    assert torch.allclose(slack(c, problem.scores, expected, y), references.slack(problem, expected))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@SMALL
@given(problem=problems())
def test_slack_is_no_less_than_the_expected_loss_of_the_prediction(loss, problem):
    c = problem.candidates
    bound = ExpectedLoss(loss, c, problem.y, problem.n_classes)
    y, rows = best(c, problem.scores)
    agreement = bound.expected_at(problem.p, y, rows)
    P, Q = Conditional(c, problem.y, problem.p), Delta(c, y, c.index(rows))
    assert torch.allclose(agreement, references.diversity(P, Q, loss), rtol=1e-5, atol=1e-6)
    assert bool((slack(c, problem.scores, bound.expected_loss(problem.p), problem.y) >= agreement - 1e-6).all())


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@SMALL
@given(problem=problems())
def test_objective_is_the_sum_of_its_terms(loss, problem):
    c, y, w, theta = problem.candidates, problem.y, torch.tensor([1.0, -2.0]), torch.tensor([0.5])
    C, J, beta, n = 10.0, 0.1, 0.3, len(problem.candidates)
    expected = loss.expected_loss(c, y, problem.p, problem.n_classes)
    objective = Objective(
        half_square(w),
        J * half_square(theta),
        float(slack(c, problem.scores, expected, y).mean()),
        float(loss.diversity(c, y, problem.p).mean()),
        C,
        beta,
    )
    P = Conditional(c, y, problem.p)
    xi, H = references.slack(problem, references.expected_loss(loss, problem)).tolist(), references.diversity(P, P, loss).tolist()
    bound = sum(a - beta * b for a, b in zip(xi, H, strict=True)) / n
    assert objective.bound == pytest.approx(bound, rel=1e-5, abs=1e-6)
    assert objective.value == pytest.approx(0.5 * 5 + J / 2 * 0.25 + C * bound, rel=1e-5, abs=1e-5)
    assert objective.terms() == {
        "objective": objective.value,
        "w_norm": 2.5,
        "theta_norm": pytest.approx(0.0125),
        "slack": objective.slack,
        "diversity": objective.diversity,
        "bound": objective.bound,
    }


def test_where_h_is_known_its_score_stands_for_the_maximum(problem):
    c, y = problem.candidates, problem.y
    known = torch.tensor([1, -1, 6, -1])
    free, fixed = truth_score(c, problem.scores, y), truth_score(c, problem.scores, y, known)
    assert torch.equal(fixed, torch.stack([problem.scores[1, y[0]], free[1], problem.scores[6, y[2]], free[3]]))
    zero = torch.zeros_like(problem.scores)
    assert bool((slack(c, problem.scores, zero, y, known) >= slack(c, problem.scores, zero, y)).all())


def test_pairs_that_a_class_does_not_have_do_not_count(problem):
    c, y = problem.candidates, problem.y
    scores, expected = problem.scores.clone(), torch.ones_like(problem.scores)
    scores[0, y[0]] = -torch.inf
    scores[4] = -torch.inf
    problem.scores = scores
    xi = slack(c, scores, expected, y)
    assert bool(xi.isfinite().all())
    assert torch.allclose(xi, references.slack(problem, expected))


def test_slack_is_differentiable_in_scores_and_expected_loss(problem):
    c, y = problem.candidates, problem.y
    expected = LOSSES["overlap"].expected_loss(c, y, problem.p, 3)
    for known in (None, torch.tensor([1, -1, 6, -1])):
        assert torch.autograd.gradcheck(
            lambda s, e, known=known: slack(c, s, e, y, known), (problem.scores.clone().requires_grad_(), expected.requires_grad_())
        )


def test_norms_are_taken_in_float64():
    assert half_square(torch.full((2_000_000,), 0.1)) == pytest.approx(0.5 * 2e6 * float(torch.tensor(0.1)) ** 2, rel=1e-9)
