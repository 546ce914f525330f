import pytest
import torch

from lvmdc import LabelLoss
from lvmdc.losses import expectation as bound
from lvmdc.testing import LossConformance


class TestLabelLoss(LossConformance):
    def make_loss(self):
        return LabelLoss()


def test_the_latent_variable_does_not_matter(problem, monkeypatch):
    monkeypatch.setattr(bound, "PairwiseExpectation", lambda *_: pytest.fail("an |H| × |H| matrix was built"))
    expected = (torch.arange(3) != problem.y[problem.candidates.sample, None]).double()
    assert torch.allclose(LabelLoss().expected_loss(problem.candidates, problem.y, problem.p, 3), expected)
    assert torch.equal(LabelLoss().diversity(problem.candidates, problem.y, problem.p), torch.zeros(4, dtype=torch.float64))
