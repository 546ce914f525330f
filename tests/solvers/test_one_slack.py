import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.problems import LOSSES, SharedWeights, problem, random_h, random_posterior

from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss
from lvmdc.solvers import StructuredHinge
from lvmdc.solvers.one_slack import line_search
from lvmdc.solvers.w_block import Point


def setting(seed, joint=None, h=None, C=5.0):
    p = problem(seed, most=5)
    hinge = StructuredHinge(p.candidates, p.y, joint or ClassBlocks(3), C)
    losses = ExpectedLoss(LOSSES["overlap"], p.candidates, p.y, 3).expected_loss(random_posterior(p, seed))
    mean_psi = hinge.mean_psi(p.y, p.candidates.offsets + (random_h(p, seed) if h is None else h))
    rng = np.random.default_rng(seed)
    start, end = (hinge.at(torch.as_tensor(s * rng.normal(size=hinge.size))) for s in (0.3, 3.0))
    return hinge, losses, mean_psi, start, end


@given(seed=st.integers(0, 1000))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_it_never_rises_and_comes_near_the_best_of_the_segment(seed):
    hinge, losses, mean_psi, start, end = setting(seed)
    found = line_search(hinge, losses, mean_psi, start, end)
    value = hinge.convex_value(found, losses, mean_psi)
    along = [hinge.convex_value(start.towards(end, float(s)), losses, mean_psi) for s in np.linspace(0, 1, 401)]
    assert value <= along[0] + 1e-9
    # A few evaluations: not exact, but most of what can be gained on the segment.
    assert along[0] - value >= 0.5 * (along[0] - min(along)) - 1e-9


def test_it_stays_where_the_segment_only_rises():
    hinge, losses, mean_psi, start, _ = setting(0)
    up = hinge.at(start.w * 30)
    assert line_search(hinge, losses, mean_psi, start, up).w.equal(start.w)


def test_candidates_that_a_class_lacks_have_no_part_in_it():
    hinge, losses, mean_psi, start, end = setting(2, SharedWeights(3), torch.zeros(8, dtype=torch.long))
    found = line_search(hinge, losses, mean_psi, start, end)
    assert np.isfinite(hinge.convex_value(found, losses, mean_psi))
    assert torch.equal(found.scores == -torch.inf, start.scores == -torch.inf)


@pytest.mark.parametrize("step", [0.0, 0.3, 1.0])
def test_a_point_between_two_mixes_their_scores_and_keeps_minus_infinity(step):
    a = Point(torch.zeros(1), torch.tensor([[0.0, -torch.inf]]))
    b = Point(torch.ones(1), torch.tensor([[2.0, -torch.inf]]))
    mixed = a.towards(b, step)
    assert mixed.scores.tolist() == [[pytest.approx(2 * step), -torch.inf]]
    assert float(mixed.w) == pytest.approx(step)
