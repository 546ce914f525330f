import math

import pytest
import torch
from references import of_sample, probabilities

from lvmdc import Candidates
from lvmdc.distributions import Conditional, Delta, Joint
from lvmdc.segments import segment_softmax


def all_kinds(problem):
    c = problem.candidates
    joint = problem.scores.exp()
    total = torch.stack([part.sum() for part in joint.split(c.counts.tolist())])[c.sample, None]
    return Delta(c, problem.y, c.counts - 1), Conditional(c, problem.y, problem.p), Joint(c, joint / total)


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("n_classes", [3, 5])
def test_tables_hold_the_probability_of_every_pair(problem, kind, n_classes):
    P = all_kinds(problem)[kind]
    table = P.table(n_classes)
    assert table.shape == (10, n_classes)
    for i in range(4):
        held = {(y, h): p for h, row in enumerate(of_sample(P.candidates, table, i)) for y, p in enumerate(row) if p > 0}
        assert held == pytest.approx(probabilities(P, i))


def test_classes_are_counted_by_the_highest(problem):
    assert [P.n_classes for P in all_kinds(problem)] == [int(problem.y.max()) + 1] * 2 + [3]


def test_entropy_is_that_of_each_sample(problem):
    entropy = Conditional(problem.candidates, problem.y, problem.p).entropy()
    expected = [-sum(p * math.log(p) for p in of_sample(problem.candidates, problem.p, i)) for i in range(4)]
    assert entropy.tolist() == pytest.approx(expected)


def test_entropy_with_probabilities_of_zero_has_a_derivative():
    scores = torch.tensor([0.0, 1.0, -torch.inf, -1e4], requires_grad=True)
    c = Candidates(torch.zeros(4, 1), [4])
    Conditional(c, torch.tensor([0]), segment_softmax(scores, c.counts)).entropy().sum().backward()
    short = torch.tensor([0.0, 1.0], requires_grad=True)
    torch.special.entr(short.softmax(0)).sum().backward()
    assert scores.grad.tolist() == pytest.approx([*short.grad.tolist(), 0.0, 0.0])


def test_a_delta_has_no_entropy(problem):
    c = problem.candidates
    p = torch.zeros(c.n_candidates).index_fill(0, c.rows([2, 0, 1, 0]), 1.0)
    assert Conditional(c, problem.y, p).entropy().tolist() == [0] * 4
