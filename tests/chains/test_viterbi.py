"""The best labeling against enumeration, by the compiled kernel and by operations on the batch."""

import brute
import pytest
import torch
from brute import all_scores, random_scores
from hypothesis import given
from references import SMALL

from lvmdc.chains import ChainScores, HammingLoss, viterbi
from lvmdc.chains.viterbi import viterbi_of_batch


@pytest.mark.parametrize("by", [viterbi, viterbi_of_batch])
@SMALL
@given(scores=all_scores(("shared", "chain", "site")))
def test_it_is_the_best_of_all_labelings(by, scores):
    value, h = by(scores)
    for i in range(len(scores)):
        found = brute.labelings(scores, i)
        length = int(scores.lengths[i])
        assert float(value[i]) == pytest.approx(max(found.values()), rel=1e-9)
        assert tuple(h[i, :length].tolist()) == max(found, key=found.get)
        assert bool((h[i, length:] == 0).all())


def test_without_pairs_every_site_is_on_its_own():
    scores = random_scores(kind="none")
    value, h = viterbi(scores)
    assert torch.allclose(value, scores.of(h))
    assert torch.equal(h, torch.where(scores.mask, scores.unary.argmax(dim=2), 0))


@pytest.mark.parametrize("by", [viterbi, viterbi_of_batch])
def test_the_first_of_several_best_is_taken(by):
    assert by(ChainScores(torch.zeros(2, 4, 3), torch.zeros(3, 3)))[1].tolist() == [[0] * 4] * 2


def test_float32_and_float64_find_the_same():
    scores = random_scores(n=20, m=12, states=5)
    single = ChainScores(scores.unary.float(), scores.pairwise[0, 0].float(), scores.lengths)
    assert torch.equal(viterbi(scores)[1], viterbi(single)[1])


def test_loss_augmented_it_is_the_maximum_of_score_and_expected_loss():
    scores, loss = random_scores(m=4, states=3, seed=7), HammingLoss()
    p = torch.rand(scores.unary.shape, dtype=torch.float64).softmax(dim=2)
    value, h = viterbi(scores.plus(loss.site_loss(p, scores.lengths)))
    for i in range(len(scores)):
        total = {}
        for labels, s in brute.labelings(scores, i).items():
            total[labels] = s + sum(1 - float(p[i, t, a]) for t, a in enumerate(labels)) / len(labels)
        assert float(value[i]) == pytest.approx(max(total.values()))
        assert tuple(h[i, : int(scores.lengths[i])].tolist()) == max(total, key=total.get)


@pytest.mark.parametrize(
    ("unary", "pairwise", "lengths", "message"),
    [
        (torch.zeros(2, 3), None, None, "unary must be floating point of shape"),
        (torch.zeros(2, 3, 4, dtype=torch.long), None, None, "unary must be floating point"),
        (torch.zeros(2, 3, 4), torch.zeros(3, 3), None, "pairwise must have shape"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, 4), None, "pairwise must have shape"),
        (torch.zeros(2, 3, 4), None, torch.tensor([3, 4]), "lengths must be 2 numbers in 1..3"),
        (torch.zeros(2, 3, 4), None, torch.tensor([3, 0]), "lengths must be 2 numbers in 1..3"),
        (torch.full((1, 1, 1), torch.nan), None, None, "unary must be finite"),
        (torch.zeros(1, 2, 2), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]), None, "pairwise must be finite"),
    ],
)
def test_bad_scores_are_refused(unary, pairwise, lengths, message):
    with pytest.raises(ValueError, match=message):
        ChainScores(unary, pairwise, lengths)


def test_what_stands_beyond_the_end_is_never_read():
    unary = torch.zeros(1, 2, 2)
    unary[0, 1] = torch.nan
    scores = ChainScores(unary, torch.zeros(2, 2), torch.tensor([1]))
    assert viterbi(scores)[0].tolist() == [0.0]
    assert scores.of(torch.tensor([[1, 7]])).tolist() == [0.0]
