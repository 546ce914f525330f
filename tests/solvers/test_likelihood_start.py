"""The start by the likelihood of the labels: its mathematics by brute force, and what it must not depend on."""

import math

import numpy as np
import pytest
import torch
from learners.problems import SharedWeights, problem

from lvmdc import Candidates
from lvmdc.feature_maps import ClassBlocks
from lvmdc.segments import segment_sum
from lvmdc.solvers.initial import ENTROPY, ClassCoordinates, Coordinates, _Problem, likelihood_posterior

JOINTS = {"class blocks": ClassBlocks(3), "a joint map that lacks candidates": SharedWeights(3)}


def setting(seed=0, **others):
    p = problem(seed, n=14, d=5, most=6, signal=3, **others)
    known = torch.where(torch.arange(14) % 5 == 0, p.candidates.offsets + p.h, -1)
    return p, known


def by_hand(p, known, scores):
    """The mean of −log P(y_i | x_i), or −log P(y_i, h_i | x_i) where h is known, from scores (T, K), by plain sums."""
    total = 0.0
    for i, y in enumerate(p.y.tolist()):
        rows = p.of(i)
        every = torch.cat([scores[r] for r in rows]).exp().sum()
        true = scores[int(known[i]), y].exp() if known[i] >= 0 else sum(scores[r, y].exp() for r in rows)
        total = total + (every / true).log()
    return total / len(p.y)


@pytest.mark.parametrize("name", JOINTS)
def test_the_likelihood_and_its_derivative_are_those_of_plain_sums(name):
    p, known = setting()
    start = _Problem(p.candidates, p.y, JOINTS[name], known)
    size, origin = start.coordinates.size, start.coordinates.at_origin.double()
    # Scores are linear in v: the whole map by its columns.
    columns = [start.coordinates.scores(v).nan_to_num(neginf=0.0).double() for v in torch.eye(size, dtype=torch.float64)]
    v = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    scores = origin + torch.stack(columns, dim=2) @ v
    value = by_hand(p, known, scores)
    (slope,) = torch.autograd.grad(value, v)
    found = start.at(v.detach(), scores.detach())
    assert found.value == pytest.approx(value.item(), rel=1e-9)
    torch.testing.assert_close(found.slope, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", JOINTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_has_a_third_of_the_greatest_entropy_and_keeps_what_is_known(name, seed):
    p, known = setting(seed)
    joint = JOINTS[name]
    found = likelihood_posterior(p.candidates, p.y, joint, known)
    torch.testing.assert_close(segment_sum(found, p.candidates.counts), torch.ones(14, dtype=torch.float64))
    has = joint.has(p.candidates, p.y)
    assert float(found[~has].sum()) == 0
    assert (found[known[known >= 0]] == 1).all()
    entropy, most = 0.0, 0.0
    for i in np.flatnonzero(known < 0):
        here = found[p.of(i).start : p.of(i).stop]
        entropy -= sum(q * math.log(q) for q in here.tolist() if q > 0)
        most += math.log(int(has[p.of(i).start : p.of(i).stop].sum()))
    assert entropy == pytest.approx(ENTROPY * most, rel=1e-2)


def test_scale_origin_and_units_of_the_features_do_not_matter():
    p, known = setting(1)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), known)
    moved = Candidates(1e4 * p.candidates.features + 5, p.candidates.counts)
    torch.testing.assert_close(likelihood_posterior(moved, p.y, ClassBlocks(3), known), found, rtol=0, atol=1e-4)


def test_a_perturbation_of_the_last_digit_moves_the_posterior_by_little():
    p, known = setting(2)
    noise = torch.randn(p.candidates.features.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = Candidates(p.candidates.features * (1 + 1e-6 * noise), p.candidates.counts)
    found = [likelihood_posterior(c, p.y, ClassBlocks(3), known) for c in (p.candidates, moved)]
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-3)


def test_the_order_of_samples_and_of_classes_does_not_matter():
    p, known = setting(3)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), known)
    order = torch.randperm(14, generator=torch.Generator().manual_seed(0))
    c = p.candidates.subset(order)
    rows = torch.cat([torch.arange(p.of(i).start, p.of(i).stop) for i in order.tolist()])
    index = torch.where(known >= 0, known - p.candidates.offsets, -1)[order]
    renamed = (p.y[order] + 1) % 3
    again = likelihood_posterior(c, renamed, ClassBlocks(3), torch.where(index >= 0, c.offsets + index, -1))
    torch.testing.assert_close(again, found[rows], rtol=0, atol=1e-3)


def test_the_coordinates_bound_the_variance_of_the_scores():
    p, _ = setting(4)
    coordinates = ClassCoordinates(p.candidates, p.y, ClassBlocks(3))
    own = torch.randn(3 * 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    v = torch.cat([own, torch.zeros(5, dtype=torch.float64)])  # nothing is shared
    assert bool((coordinates.scores(v).var(dim=0, correction=0) <= own.reshape(3, 5).square().sum(dim=1)).all())


def test_the_map_and_its_transpose_agree():
    p, _ = setting(5)
    for coordinates in (ClassCoordinates(p.candidates, p.y, ClassBlocks(3)), Coordinates(p.candidates, p.y, ClassBlocks(3))):
        generator = torch.Generator().manual_seed(0)
        v = torch.randn(coordinates.size, generator=generator, dtype=torch.float64)
        weights = torch.randn(p.candidates.n_candidates, 3, generator=generator, dtype=torch.float64)
        assert float((coordinates.scores(v) * weights).sum()) == pytest.approx(float(v @ coordinates.transpose(weights)), rel=1e-9)


def test_more_features_than_the_covariance_may_have_are_scaled_one_by_one(monkeypatch):
    monkeypatch.setattr("lvmdc.solvers.initial.DENSE", 4)
    p, known = setting(6)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), known)
    moved = Candidates(1e4 * p.candidates.features, p.candidates.counts)
    torch.testing.assert_close(likelihood_posterior(moved, p.y, ClassBlocks(3), known), found, rtol=0, atol=1e-4)


def test_nothing_is_preferred_where_nothing_can_be_learned():
    c, y = Candidates(torch.ones(6, 2), [2, 3, 1]), torch.tensor([0, 1, 0])
    found = likelihood_posterior(c, y, ClassBlocks(2), torch.tensor([-1, -1, -1]))
    torch.testing.assert_close(found, torch.tensor([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1.0], dtype=torch.float64))
    one = Candidates(torch.eye(2), [1, 1])  # one candidate per sample
    assert likelihood_posterior(one, torch.tensor([0, 1]), ClassBlocks(2), torch.tensor([-1, -1])).tolist() == [1.0, 1.0]


def test_a_class_without_samples_does_no_harm():
    p, known = setting(7)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(5), known)
    assert bool(found.isfinite().all())


def test_it_finds_the_telling_candidate():
    p = problem(0, n=60, d=6, most=8, signal=4, dtype=torch.float32)
    found = likelihood_posterior(p.candidates, p.y, ClassBlocks(3), torch.full((60,), -1))
    true = found[p.candidates.offsets + p.h]
    assert float(true.mean()) > 2 * float((1 / p.candidates.counts.double()).mean())
