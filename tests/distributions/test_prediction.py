import pytest
import torch
from hypothesis import given
from references import SMALL, argmax, problems
from torch import nn

from lvmdc.distributions import Delta, LinearPrediction, NeuralPrediction
from lvmdc.inference import best_value
from lvmdc.testing import random_candidates


class Given(nn.Module):
    """A module without parameters that returns these scores."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def forward(self, features):
        return self.scores


def random_w(n_classes=3):
    return torch.randn(n_classes, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@SMALL
@given(problems())
def test_linear_prediction_is_the_greatest_score(problem):
    c, w = problem.candidates, random_w(problem.n_classes)
    scores = torch.tensor([[sum(a * b for a, b in zip(x, v, strict=True)) for v in w.tolist()] for x in c.features.tolist()]).double()
    model = LinearPrediction(w)
    (y, h), score = model.predict(c), model.top_k(c, 1)[2][:, 0].tolist()
    for i in range(len(c)):
        value, label, index = argmax(c, scores, i)
        assert (int(y[i]), int(h[i])) == (label, index)
        assert score[i] == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_forward_is_the_delta_on_the_prediction(problem):
    model = LinearPrediction(random_w())
    P = model(problem.candidates)
    assert isinstance(P, Delta)
    assert all(torch.equal(a, b) for a, b in zip((P.y, P.h), model.predict(problem.candidates), strict=True))


def test_the_k_best_begin_with_the_prediction(problem):
    model = LinearPrediction(random_w())
    y, h, value = model.top_k(problem.candidates, 3)
    assert torch.equal(torch.stack(model.predict(problem.candidates)), torch.stack([y[:, 0], h[:, 0]]))
    assert torch.equal(value[:, 0], best_value(problem.candidates, model.scores(problem.candidates)))
    assert bool((value[:, :-1] >= value[:, 1:]).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_linear_module_predicts_as_the_linear_model_does(dtype):
    c, w = random_candidates([3, 1, 4], dtype=dtype), random_w().float()
    module = nn.Linear(3, 3, bias=False)
    module.weight.data = w
    linear, neural = LinearPrediction(w), NeuralPrediction(module)
    assert torch.allclose(linear.scores(c).float(), neural.scores(c), atol=1e-5)
    assert torch.equal(torch.stack(linear.predict(c)), torch.stack(neural.predict(c)))


def test_the_best_score_is_differentiable_in_the_parameters(problem):
    model = LinearPrediction(random_w())
    best_value(problem.candidates, model.scores(problem.candidates)).sum().backward()
    y, h = model.predict(problem.candidates)
    expected = model.joint.sum(problem.candidates, y, problem.candidates.rows(h)).reshape(3, 3)
    assert torch.allclose(model.w.grad, expected)


@pytest.mark.parametrize("scores", [torch.full((10, 3), torch.nan), torch.full((10, 3), torch.inf), torch.zeros(9, 3), torch.zeros(10)])
def test_modules_that_give_no_scores_are_refused(problem, scores):
    with pytest.raises(ValueError, match="module must return"):
        NeuralPrediction(Given(scores)).predict(problem.candidates)
