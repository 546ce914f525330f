import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references import SMALL, argmax, of_sample, problems

from lvmdc import inference
from lvmdc.candidates import Candidates

INF = torch.inf


@SMALL
@given(problems())
def test_best_is_the_greatest_of_all_pairs(problem):
    c, scores = problem.candidates, problem.scores
    y, rows = inference.best(c, scores)
    value = inference.best_value(c, scores)
    for i in range(len(c)):
        assert (float(value[i]), int(y[i]), int(c.index(rows)[i])) == argmax(c, scores, i)


@SMALL
@given(problems())
def test_best_of_class_is_the_greatest_candidate_of_ones_own(problem):
    c, scores, y = problem.candidates, problem.scores, problem.y
    h = c.index(inference.best_of_class(c, scores, y))
    for i, label in enumerate(y.tolist()):
        own = [row[label] for row in of_sample(c, scores, i)]
        assert own[int(h[i])] == max(own)
        assert of_sample(c, inference.own_class(c, scores, y), i) == own


@SMALL
@given(problems(), st.integers(1, 15))
def test_top_k_is_the_head_of_all_pairs_sorted(problem, k):
    c, scores = problem.candidates, problem.scores
    y, h, value = inference.top_k(c, scores, k)
    assert y.shape == h.shape == value.shape == (len(c), k)
    for i in range(len(c)):
        pairs = [(s, label, j) for j, row in enumerate(of_sample(c, scores, i)) for label, s in enumerate(row)]
        expected = sorted(pairs, reverse=True)[:k] + [(-INF, -1, -1)] * max(0, k - len(pairs))
        assert list(zip(value[i].tolist(), y[i].tolist(), h[i].tolist(), strict=True)) == expected


def test_the_first_pair_wins_where_several_tie():
    c = Candidates(torch.zeros(3, 1), [3])
    scores = torch.tensor([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    y, rows = inference.best(c, scores)
    assert (y.tolist(), rows.tolist()) == ([1], [0])
    assert [t.tolist() for t in inference.top_k(c, scores, 4)[:2]] == [[[1, 0, 1, 0]], [[0, 1, 1, 2]]]


def test_pairs_that_a_class_does_not_have_are_never_chosen():
    c = Candidates(torch.zeros(3, 1), [2, 1])
    scores = torch.tensor([[-INF, -9.0], [-INF, -INF], [0.0, -INF]])
    y, rows = inference.best(c, scores)
    assert (y.tolist(), rows.tolist()) == ([1, 0], [0, 2])
    y, h, value = inference.top_k(c, scores, 2)
    assert (y.tolist(), h.tolist(), value.tolist()) == ([[1, -1], [0, -1]], [[0, -1], [0, -1]], [[-9.0, -INF], [0.0, -INF]])


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        inference.best(Candidates(torch.zeros(2, 1), [1, 1]), torch.tensor([[0.0], [torch.nan]]))


def test_the_best_value_has_the_derivative_of_the_best_pair(problem):
    scores = problem.scores.clone().requires_grad_()
    inference.best_value(problem.candidates, scores).sum().backward()
    y, rows = inference.best(problem.candidates, scores)
    assert torch.equal(scores.grad, torch.zeros_like(scores).index_put((rows, y), torch.ones(len(rows), dtype=scores.dtype)))
