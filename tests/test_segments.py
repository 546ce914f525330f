import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references import SMALL, softmax
from torch.autograd import gradcheck

from lvmdc import segments

INF = torch.inf


def ragged(seed, counts):
    values = torch.randn(sum(counts), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values, torch.tensor(counts)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@SMALL
@given(st.integers(0, 999), shapes)
def test_segment_operations_are_those_of_each_sample_alone(seed, counts):
    values, lengths = ragged(seed, counts)
    parts = values.split(counts)
    assert torch.allclose(segments.segment_sum(values, lengths), torch.stack([p.sum() for p in parts]))
    assert torch.equal(segments.segment_max(values, lengths), torch.stack([p.max() for p in parts]))
    assert torch.allclose(segments.segment_logsumexp(values, lengths), torch.stack([p.logsumexp(0) for p in parts]))
    alone = torch.tensor([q for p in parts for q in softmax(p.tolist())], dtype=torch.float64)
    assert torch.allclose(segments.segment_softmax(values, lengths), alone)
    first = lengths.cumsum(0) - lengths
    assert torch.equal(segments.segment_argmax(values, lengths), first + torch.stack([p.argmax() for p in parts]))
    assert segments.segment_ids(lengths).tolist() == [i for i, count in enumerate(counts) for _ in range(count)]


def test_sums_and_maxima_keep_further_axes():
    values, counts = torch.arange(12.0).reshape(4, 3), torch.tensor([1, 3])
    assert torch.equal(segments.segment_sum(values, counts), torch.stack([values[0], values[1:].sum(0)]))
    assert torch.equal(segments.segment_max(values.T.contiguous().T, counts), values[[0, 3]])


def test_argmax_takes_the_first_of_several_that_tie():
    assert segments.segment_argmax(torch.tensor([1.0, 1.0, 0.0, 2.0, 2.0]), torch.tensor([2, 3])).tolist() == [0, 3]


def test_argmax_passes_over_minus_infinity_and_takes_the_first_where_there_is_nothing_else():
    assert segments.segment_argmax(torch.tensor([-INF, -5.0, -INF, -INF]), torch.tensor([2, 2])).tolist() == [1, 2]


def test_argmax_refuses_nan_and_names_the_sample():
    with pytest.raises(ValueError, match="NaN, but they are in sample 1"):
        segments.segment_argmax(torch.tensor([0.0, 1.0, torch.nan, 2.0]), torch.tensor([1, 2, 1]))


@pytest.mark.parametrize("size", [1e4, -1e4, 1e30])
def test_softmax_of_large_scores_does_not_overflow(size):
    values = torch.tensor([size, size, 0.0, -size, size])
    p = segments.segment_softmax(values, torch.tensor([2, 2, 1]))
    rest = [1.0, 0.0] if size > 0 else [0.0, 1.0]
    assert torch.equal(p, torch.tensor([0.5, 0.5, *rest, 1.0]))


def test_logsumexp_of_nothing_but_minus_infinity_is_minus_infinity():
    assert segments.segment_logsumexp(torch.tensor([-INF, -INF, 0.0]), torch.tensor([2, 1])).tolist() == [-INF, 0.0]


def test_derivatives_are_those_of_differences():
    values, counts = ragged(0, [3, 1, 2])
    for function in (segments.segment_sum, segments.segment_max, segments.segment_logsumexp, segments.segment_softmax):
        assert gradcheck(lambda v, f=function: f(v, counts), values.clone().requires_grad_())


def test_a_score_of_minus_infinity_leaves_the_derivatives_of_the_others_alone():
    counts = torch.tensor([3])
    with_gap = torch.tensor([0.3, -INF, 1.2], dtype=torch.float64, requires_grad=True)
    without = torch.tensor([0.3, 1.2], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([1.0, 5.0, -2.0], dtype=torch.float64)
    (segments.segment_softmax(with_gap, counts) * weight).sum().backward()
    (without.softmax(0) * weight[[0, 2]]).sum().backward()
    assert with_gap.grad.tolist() == pytest.approx([float(without.grad[0]), 0.0, float(without.grad[1])])


def test_one_sample_of_very_many_beside_many_of_one():
    counts = torch.cat([torch.tensor([100_000]), torch.ones(1000, dtype=torch.long)])
    p = segments.segment_softmax(torch.randn(int(counts.sum()), generator=torch.Generator().manual_seed(0)), counts)
    assert torch.allclose(segments.segment_sum(p, counts), torch.ones(1001))
