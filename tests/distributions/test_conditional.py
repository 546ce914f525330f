import pytest
import torch
from hypothesis import given
from references import SMALL, of_sample, problems, softmax
from torch import nn

from lvmdc import Candidates, ClassBlocks
from lvmdc.distributions import ConditionalModel, LogLinear, NeuralConditional, Uniform, score_dtype
from lvmdc.testing import ConditionalConformance, random_candidates


def random_theta(n_classes=3, d=3, seed=3):
    return torch.randn(n_classes, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestLogLinear(ConditionalConformance):
    def make_model(self, candidates, y):
        return LogLinear(random_theta())


class TestLogLinearWithAJointMap(ConditionalConformance):
    def make_model(self, candidates, y):
        return LogLinear(random_theta().flatten(), ClassBlocks(3))


class TestNeuralConditional(ConditionalConformance):
    def make_model(self, candidates, y):
        torch.manual_seed(0)
        return NeuralConditional(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)))


class TestUniform(ConditionalConformance):
    def make_model(self, candidates, y):
        return Uniform()


class Confident(ConditionalModel):
    """Custom scores, some so far below the others that their probability is zero."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def scores(self, candidates, y):
        return -1000 * self.scale * candidates.index(torch.arange(candidates.n_candidates))


class TestConfident(ConditionalConformance):
    def make_model(self, candidates, y):
        return Confident()

    def test_log_prob_is_the_logarithm_of_the_probability(self):
        model, candidates, y = self._setting()
        assert torch.equal(model.log_prob(candidates, y).exp(), model(candidates, y).p)
        assert bool(model.log_prob(candidates, y).isfinite().all())  # where p itself is zero


@SMALL
@given(problems())
def test_log_linear_probabilities_are_normalised_exponentials(problem):
    c, theta = problem.candidates, random_theta(problem.n_classes)
    p = LogLinear(theta)(c, problem.y).p
    for i, label in enumerate(problem.y.tolist()):
        scores = [sum(a * b for a, b in zip(x, theta[label].tolist(), strict=True)) for x in of_sample(c, c.features, i)]
        assert of_sample(c, p, i) == pytest.approx(softmax(scores))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_scores_of_ten_thousand_do_not_overflow(dtype):
    c = Candidates(torch.tensor([[100.0], [100.0], [99.0], [-100.0]], dtype=dtype), [3, 1])
    model = LogLinear(torch.tensor([[100.0]]))
    p = model(c, [0, 0]).p
    p.square().sum().backward()
    assert torch.allclose(p, torch.tensor([0.5, 0.5, 0.0, 1.0], dtype=p.dtype))
    assert bool(model.theta.grad.isfinite().all())


def test_the_conditional_distribution_sees_phi_where_it_is_given(problem):
    c = problem.candidates
    own = Candidates(c.features, c.counts, phi=c.features[:, :2])
    theta = random_theta(3, 2)
    expected = LogLinear(theta)(Candidates(c.features[:, :2], c.counts), problem.y).p
    assert torch.equal(LogLinear(theta)(own, problem.y).p, expected)
    linear = nn.Linear(2, 3, bias=False).double()
    linear.weight.data = theta
    assert torch.allclose(NeuralConditional(linear)(own, problem.y).p, expected)


def test_classes_may_come_as_any_list(problem):
    c, theta = problem.candidates, random_theta()
    expected = LogLinear(theta)(c, problem.y).p
    for y in (problem.y.tolist(), problem.y.numpy(), problem.y.to(torch.int32), problem.y.double()):
        assert torch.equal(LogLinear(theta)(c, y).p, expected)


def test_probabilities_have_the_precision_of_the_features_and_float32_at_least():
    for dtype, expected in ((torch.float16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)):
        c = random_candidates([2, 1], dtype=dtype)
        assert score_dtype(c) == expected
        for model in (LogLinear(random_theta()), Uniform()):
            assert model(c, [0, 2]).p.dtype == expected


class Scores(ConditionalModel):
    def __init__(self, values):
        super().__init__()
        self.values = values

    def scores(self, candidates, y):
        return torch.tensor(self.values)


@pytest.mark.parametrize("bad", [[-torch.inf, -torch.inf], [torch.nan, 0.0], [torch.inf, 0.0]])
def test_a_sample_without_any_candidate_of_its_class_is_refused_and_named(bad):
    with pytest.raises(ValueError, match="sample 1, class 5"):
        Scores([0.0, *bad])(Candidates(torch.zeros(3, 1), [1, 2]), [0, 5])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), r"module must return scores of shape \(10, K\), but it returned \(10,\)"),
        (nn.Threshold(100.0, float("nan")), "module must return finite scores, but Threshold returned NaN or infinity"),
    ],
)
def test_modules_that_give_no_scores_are_refused(module, message, problem):
    with pytest.raises(ValueError, match=message):
        NeuralConditional(module.double())(problem.candidates, problem.y)


def test_parameters_are_a_copy():
    theta = torch.zeros(1, 2)
    model = LogLinear(theta)
    theta += 1
    assert model.theta.abs().sum() == 0
