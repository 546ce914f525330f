"""What a pass finds of every sample, held against plain sorting."""

import numpy as np
import pytest
import torch

from lvmdc import Candidates
from lvmdc.segments import segment_argmax
from lvmdc.solvers.n_slack.kernels import missing, own_maxima

M = 5  # planes that a sample can have


def sorted_missing(value, where, mixed, row, cls, count, total, most):
    """The same by a stable sort of all classes."""
    found = []
    for i in range(len(value)):
        if total[i] > 0:
            known = set(zip(row[i, : count[i]].tolist(), cls[i, : count[i]].tolist(), strict=True))
            order = sorted(range(value.shape[1]), key=lambda k: -value[i, k])[:most]
            found += [(i, where[i, k], k) for k in order if value[i, k] > mixed[i] and (where[i, k], k) not in known]
    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [1, 2, 6, 40])
@pytest.mark.parametrize("most", [1, 3, 10])
def test_planes_to_add_are_the_greatest_that_beat_the_mixture_and_are_not_known(classes, most, ties):
    rng = np.random.default_rng([classes, most, ties])
    for _ in range(30):
        n = 6
        value = rng.integers(5, size=(n, classes)).astype(float) if ties else rng.standard_normal((n, classes))
        value[rng.random((n, classes)) < 0.1] = -np.inf  # a class that does not have any of the candidates
        where, mixed = rng.integers(3, size=(n, classes)), rng.integers(5, size=n) / 2
        row, cls, count = rng.integers(3, size=(n, M)), rng.integers(classes, size=(n, M)), rng.integers(M + 1, size=n)
        total = rng.integers(4, size=n) / 4  # zero: a sample that does not count
        found = missing(value, where, mixed, row, cls, count, total, most)
        assert list(zip(*(f.tolist() for f in found), strict=True)) == sorted_missing(value, where, mixed, row, cls, count, total, most)


@pytest.mark.parametrize("tie", [0.0, 1e-2])
def test_h_star_is_the_first_that_is_as_good_as_the_best_and_the_same_in_both_implementations(tie):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, 40)
    starts, y = np.cumsum(counts) - counts, rng.integers(3, size=40)
    scores = rng.integers(-3, 4, size=(counts.sum(), 3)) + 1e-3 * rng.standard_normal((counts.sum(), 3))
    rows, value = own_maxima(scores, y, np.full(40, -1), starts, counts, tie)
    c = Candidates(torch.zeros(len(scores), 1), counts)
    own = torch.as_tensor(scores).gather(1, torch.as_tensor(y)[c.sample, None])[:, 0]
    assert segment_argmax(own, c.counts, tie).tolist() == rows.tolist()
    for i in range(40):
        here = scores[starts[i] : starts[i] + counts[i], y[i]].tolist()
        assert rows[i] == starts[i] + next(h for h, s in enumerate(here) if s >= max(here) - tie * abs(max(here)))
        assert value[i] == scores[rows[i], y[i]]
