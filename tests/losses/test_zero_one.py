import pytest
import torch
from hypothesis import given
from references import SMALL, problems

from lvmdc import ZeroOneLoss
from lvmdc.losses import expectation as bound
from lvmdc.segments import segment_sum
from lvmdc.testing import LossConformance, random_candidates


class TestZeroOneLoss(LossConformance):
    def make_loss(self):
        return ZeroOneLoss()


class TestZeroOneLossOfOneClass(TestZeroOneLoss):
    n_classes = 1


class TestZeroOneLossOfOneCandidate(TestZeroOneLoss):
    def make_candidates(self):
        return random_candidates([1, 1, 1])


@SMALL
@given(problems())
def test_expected_loss_is_one_minus_p_and_diversity_one_minus_the_squares(problem):
    c, y, p = problem.candidates, problem.y, problem.p
    own = ZeroOneLoss().expected_loss(c, y, p, problem.n_classes)[torch.arange(len(p)), y[c.sample]]
    assert torch.allclose(own, 1 - p)
    assert torch.allclose(ZeroOneLoss().diversity(c, y, p), 1 - segment_sum(p**2, c.counts))


def test_no_pairwise_matrix_is_ever_built(problem, monkeypatch):
    monkeypatch.setattr(bound, "PairwiseExpectation", lambda *_: pytest.fail("an |H| × |H| matrix was built"))
    ZeroOneLoss().expected_loss(problem.candidates, problem.y, problem.p)
    ZeroOneLoss().diversity(problem.candidates, problem.y, problem.p)


def test_a_million_candidates_of_one_sample_lose_no_precision():
    c = random_candidates([1_000_000], n_features=1, dtype=torch.float32)
    p = torch.full((c.n_candidates,), 1e-6)
    assert float(ZeroOneLoss().diversity(c, [0], p)) == pytest.approx(1 - 1e-6, rel=1e-6)
