import numpy as np
import pytest
import torch
from references import LOSSES, lopsided

from lvmdc import Candidates, FunctionLoss, Loss
from lvmdc.losses import check_loss
from lvmdc.testing import LossConformance, random_candidates


class TestFunctionOfIndices(LossConformance):
    def make_loss(self):
        return FunctionLoss(lambda y1, h1, y2, h2: (y1 != y2) | ((h1 - h2).abs() > 1))


class TestFunctionOfBoxes(LossConformance):
    def make_loss(self):
        return FunctionLoss(lambda y1, b1, y2, b2: (b1 - b2).abs().sum(-1) * (1 + y1) + (y1 != y2), latent="box")


class TestFunctionOfRows(LossConformance):
    """Looks up what it knows of a candidate."""

    def make_loss(self):
        depth = torch.linspace(0, 1, 15)
        return FunctionLoss(lambda y1, r1, y2, r2: (y1 != y2) + (depth[r1] - depth[r2]).abs(), latent="row")


class TestLopsidedFunction(LossConformance):
    """No shortcut applies: not symmetric, dependent on h across classes and on the class within one."""

    def make_loss(self):
        return FunctionLoss(lopsided)


class TestFunctionThatIgnoresTheLatentVariable(LossConformance):
    """Returns fewer axes than it was given."""

    def make_loss(self):
        return FunctionLoss(lambda y1, h1, y2, h2: (y1 - y2).abs())


@pytest.mark.parametrize("nothing", [0, 0.0, False, np.float32(0), torch.tensor(0.0)])
def test_a_plain_number_is_a_loss_too(nothing):
    c = random_candidates([2, 1])
    loss = FunctionLoss(lambda *_: nothing)
    assert loss.diversity(c, [0, 1], torch.ones(3)).tolist() == [0, 0]
    assert loss.between(c, [0, 1], [0, 0], [1, 1], [1, 0]).tolist() == [0, 0]


def test_the_truth_comes_first():
    c = Candidates(torch.zeros(3, 1), [3])
    late = FunctionLoss(lambda y1, h1, y2, h2: (h2 - h1).clamp(min=0))
    assert late.between(c, [0], [0], [0], [2]).tolist() == [2]
    assert late.between(c, [0], [2], [0], [0]).tolist() == [0]


def test_a_function_that_returns_another_shape_is_refused():
    forgot_to_add_up = FunctionLoss(lambda y1, b1, y2, b2: (b1 - b2).abs(), latent="box")
    with pytest.raises(ValueError, match=r"function must return a loss for every element, shape \(.+, 1\), but it returned shape"):
        forgot_to_add_up.diversity(random_candidates([2]), [0], torch.ones(2))


def test_an_unknown_kind_of_latent_value_is_refused():
    with pytest.raises(ValueError, match="latent must be 'index', 'box' or 'row', but it is 'boxes'"):
        FunctionLoss(lopsided, latent="boxes")


def test_a_function_of_boxes_needs_them():
    with pytest.raises(ValueError, match="FunctionLoss needs Candidates"):
        FunctionLoss(lopsided, latent="box").diversity(Candidates(torch.zeros(1, 1), [1]), [0], torch.ones(1))


class Truthy(Loss):
    """A loss that returns truth values."""

    def delta(self, y1, h1, y2, h2):
        return (y1 != y2) | (h1.index != h2.index)


class Steps(Loss):
    """A loss that returns whole numbers."""

    def delta(self, y1, h1, y2, h2):
        return torch.where(y1 == y2, (h1.index - h2.index).abs(), 7)


class TestTruthy(LossConformance):
    def make_loss(self):
        return Truthy()


class TestSteps(LossConformance):
    def make_loss(self):
        return Steps()


@pytest.mark.parametrize("loss", [*LOSSES.values(), Truthy(), Steps()], ids=repr)
def test_a_loss_passes(loss, problem):
    check_loss(loss, problem.candidates, problem.y, 3)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda y1, h1, y2, h2: 1 - 0.5 * (y1 == y2), r"Δ\(z, z\) = 0, but it is 0.5 for class 0, candidate 0 of sample 0"),
        (lambda y1, h1, y2, h2: (y1 == 1) & (h1 == 2), r"Δ\(z, z\) = 0, but it is 1 for class 1, candidate 2 of sample 0"),
        (lambda y1, h1, y2, h2: torch.nan * h1, r"Δ\(z, z\) = 0, but it is nan"),
        (lambda y1, h1, y2, h2: h1 - h2, r"not negative, but it is -1 for sample 0, truth \(0, 0\), prediction \(0, 1\)"),
        (lambda y1, h1, y2, h2: h2 - h1, r"not negative, but it is -1 for sample 0, truth \(0, 1\), prediction \(0, 0\)"),
        (lambda y1, h1, y2, h2: torch.where(y2 - y1 == 1, torch.inf, 0.0), r"must be finite .* but it is inf for sample 0"),
    ],
    ids=["not zero", "not zero somewhere", "nan", "negative", "negative the other way round", "infinite"],
)
def test_what_is_no_loss_is_refused(function, message, problem):
    with pytest.raises(ValueError, match=message):
        check_loss(FunctionLoss(function), problem.candidates, torch.tensor([0, 1, 2, 0]), 3)
