import pytest
import torch
from references import LOSSES

from lvmdc import FunctionLoss, Loss
from lvmdc.losses import check_loss
from lvmdc.testing import LossConformance


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
