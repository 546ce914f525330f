import numpy as np
import pytest
import torch
from references import lopsided

from lvmdc import Candidates, FunctionLoss
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
    with pytest.raises(ValueError, match=r"function must return a loss for every element, shape \(1, 2, 2, 1\), but it returned shape"):
        forgot_to_add_up.diversity(random_candidates([2]), [0], torch.ones(2))


def test_an_unknown_kind_of_latent_value_is_refused():
    with pytest.raises(ValueError, match="latent must be 'index', 'box' or 'row', but it is 'boxes'"):
        FunctionLoss(lopsided, latent="boxes")


def test_a_function_of_boxes_needs_them():
    with pytest.raises(ValueError, match="FunctionLoss needs Candidates"):
        FunctionLoss(lopsided, latent="box").diversity(Candidates(torch.zeros(1, 1), [1]), [0], torch.ones(1))
