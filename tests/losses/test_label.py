import numpy as np
import pytest
import torch
from hypothesis import given
from references import SMALL, problems

from lvmdc import Candidates, CostLoss, FunctionLoss, LabelLoss, OverlapLoss, ZeroOneLoss
from lvmdc.losses import expectation as bound
from lvmdc.segments import segment_sum
from lvmdc.testing import LossConformance, random_candidates


class TestLabelLoss(LossConformance):
    def make_loss(self):
        return LabelLoss()


def test_the_latent_variable_does_not_matter(problem, monkeypatch):
    monkeypatch.setattr(bound, "PairwiseExpectation", lambda *_: pytest.fail("an |H| × |H| matrix was built"))
    expected = (torch.arange(3) != problem.y[problem.candidates.sample, None]).double()
    assert torch.allclose(LabelLoss().expected_loss(problem.candidates, problem.y, problem.p, 3), expected)
    assert torch.equal(LabelLoss().diversity(problem.candidates, problem.y, problem.p), torch.zeros(4, dtype=torch.float64))


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


LOPSIDED = [[0, 1, 2.5], [10, 0, 0.25], [3, 0, 0]]


class TestCostLoss(LossConformance):
    def make_loss(self):
        return CostLoss(LOPSIDED)


class TestCostLossWithOverlapInside(LossConformance):
    def make_loss(self):
        return CostLoss(np.array(LOPSIDED), latent=OverlapLoss())


class TestCostLossWithZeroOneInside(LossConformance):
    def make_loss(self):
        return CostLoss(torch.tensor(LOPSIDED), latent=ZeroOneLoss())


class TestCostLossWithAFunctionInside(LossConformance):
    def make_loss(self):
        return CostLoss(LOPSIDED, latent=FunctionLoss(lambda y1, h1, y2, h2: (1 + y1) * (h1 - h2).clamp(min=0)))


class TestCostLossWithACostLossInside(LossConformance):
    def make_loss(self):
        return CostLoss(LOPSIDED, latent=CostLoss(torch.zeros(3, 3), latent=OverlapLoss()))


def test_rows_are_the_truth_and_columns_the_prediction():
    c = Candidates(torch.zeros(2, 1), [1, 1])
    assert CostLoss(LOPSIDED).between(c, [1, 0], [0, 0], [0, 1], [0, 0]).tolist() == [10, 1]


def test_closed_forms_of_the_loss_inside_are_used(problem, monkeypatch):
    monkeypatch.setattr(bound, "PairwiseExpectation", lambda *_: pytest.fail("an |H| × |H| matrix was built"))
    for latent in (None, ZeroOneLoss()):
        CostLoss(LOPSIDED, latent).expected_loss(problem.candidates, problem.y, problem.p, 3)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([0, 1], r"cost must have shape \(K, K\), but it has shape \(2,\)"),
        ([[0, 1]], r"cost must have shape \(K, K\), but it has shape \(1, 2\)"),
        ([[0, -1], [1, 0]], "cost must be finite and not negative"),
        ([[0, float("nan")], [1, 0]], "cost must be finite and not negative"),
        ([[0, float("inf")], [1, 0]], "cost must be finite and not negative"),
        ([[0, 1], [1, 0.5]], "cost must be zero on its diagonal"),
    ],
)
def test_bad_tables_are_refused(cost, message):
    with pytest.raises(ValueError, match=message):
        CostLoss(cost)


def test_a_class_that_the_table_does_not_cover_is_named():
    with pytest.raises(ValueError, match=r"cost must cover class 2, but it has shape \(2, 2\)"):
        CostLoss([[0, 1], [1, 0]]).expected_loss(random_candidates([1, 1]), [0, 2], torch.ones(2))


def test_what_the_loss_inside_needs_is_asked_for():
    with pytest.raises(ValueError, match="OverlapLoss needs Candidates"):
        CostLoss(LOPSIDED, OverlapLoss()).diversity(Candidates(torch.zeros(2, 1), [2]), [0], torch.ones(2))
