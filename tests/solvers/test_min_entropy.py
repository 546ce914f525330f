import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learners.problems import SharedWeights, delta_at, expected_loss, problem, random_h, shared_weights, structural_svm
from learners.soft_references import m3e_slack
from learners.soft_references import scores as by_class
from references import SMALL

from lvmdc.feature_maps import ClassBlocks
from lvmdc.objective import slack as svm_slack
from lvmdc.solvers.cutting_planes import bundle
from lvmdc.solvers.linear import Regularised
from lvmdc.solvers.min_entropy import LinearisedSlack, MinEntropySlack
from lvmdc.solvers.w_block import LinearScores

ALPHAS = [0.3, 0.95, 1.0, 1.02, 1.3, 2.0, 12.0, 1000.0, math.inf]
PROBLEMS = st.builds(
    lambda seed, n, most, K: problem(seed, n=max(n, K), most=most, K=K),
    st.integers(0, 99),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 3),
)


def make(p, alpha, known=None, cost=None):
    cost = 1.0 - torch.eye(p.n_classes, dtype=torch.float64)[p.y] if cost is None else cost
    known = torch.full_like(p.y, -1) if known is None else known
    return MinEntropySlack(p.candidates, p.y, known, cost, alpha)


def some_w(p, seed, scale=1.0):
    return scale * torch.randn(p.n_classes * p.candidates.n_features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(PROBLEMS, st.integers(0, 99), st.sampled_from([0.1, 1.0, 3.0]))
@SMALL
def test_the_slack_is_the_margin_between_entropies(alpha, p, seed, scale):
    w = some_w(p, seed, scale)
    table = by_class(p, w.numpy())
    found = make(p, alpha).each(ClassBlocks(p.n_classes).scores(p.candidates, w))
    assert found.tolist() == pytest.approx(m3e_slack(p, table, alpha), abs=1e-7)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(PROBLEMS, st.integers(0, 99), st.floats(0.01, 10.0), st.booleans())
@SMALL
def test_linearised_it_bounds_the_slack_and_meets_it_where_it_was_linearised(alpha, p, seed, scale, some_known):
    known = torch.where((torch.arange(len(p.y)) % 2 == 0) & some_known, p.candidates.offsets + p.h, -1)
    slack, joint = make(p, alpha, known), ClassBlocks(p.n_classes)
    here, there = (joint.scores(p.candidates, some_w(p, s, scale)) for s in (seed, seed + 1))
    risk = LinearisedSlack(slack, here)
    assert risk.value(here) == pytest.approx(float(slack.each(here).mean()), rel=1e-9, abs=1e-9)
    for scores_ in (there, 0.5 * (here + there), 3 * there - 2 * here):
        assert risk.value(scores_) >= float(slack.each(scores_).mean()) * (1 - 1e-9) - 1e-9


@pytest.mark.parametrize("alpha", ALPHAS)
@given(PROBLEMS, st.integers(0, 99), st.floats(0.01, 10.0))
@SMALL
def test_linearised_it_is_convex_and_its_weights_are_subgradients(alpha, p, seed, scale):
    slack, joint = make(p, alpha), ClassBlocks(p.n_classes)
    risk = LinearisedSlack(slack, joint.scores(p.candidates, some_w(p, seed, scale)))
    one, two = (joint.scores(p.candidates, some_w(p, seed + s, scale)) for s in (1, 2))
    rise = two - one
    slope = float((risk.weights(one) * rise).sum())
    near = 1e-9 * (1 + abs(risk.value(one)) + abs(slope))
    assert risk.value(two) >= risk.value(one) + slope - near
    assert risk.along(one, rise)(0.0) == pytest.approx(slope, abs=near)
    assert risk.along(one, rise)(0.25) == pytest.approx(float((risk.weights(one + 0.25 * rise) * rise).sum()), abs=near)


@pytest.mark.parametrize("alpha", ALPHAS[:-1])
@pytest.mark.parametrize("seed", range(3))
def test_where_it_is_linearised_its_gradient_is_that_of_the_slack(alpha, seed):
    p = problem(seed, n=6, most=4)
    slack, joint = make(p, alpha), ClassBlocks(3)
    w, direction = some_w(p, seed), some_w(p, seed + 10)
    here, rise = joint.scores(p.candidates, w), joint.scores(p.candidates, direction)
    slope = (slack.each(here + 1e-6 * rise).mean() - slack.each(here - 1e-6 * rise).mean()) / 2e-6
    assert float((LinearisedSlack(slack, here).weights(here) * rise).sum()) == pytest.approx(float(slope), abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_of_infinite_order_it_is_the_slack_of_the_latent_svm(seed):
    p = problem(seed, n=9, most=5)
    known = torch.where(torch.arange(9) % 3 == 0, p.candidates.offsets + p.h, -1)
    w = some_w(p, seed)
    table = ClassBlocks(3).scores(p.candidates, w)
    losses = torch.as_tensor(expected_loss("label", p, delta_at(p, p.h)))
    torch.testing.assert_close(make(p, math.inf, known).each(table), svm_slack(p.candidates, table, losses, p.y, known))


@pytest.mark.parametrize("C", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_of_infinite_order_the_first_convex_problem_is_14(C, seed):
    p = problem(seed, n=8)
    h = random_h(p, seed)
    optimum, _ = structural_svm(p, expected_loss("label", p, delta_at(p, h)), h, C)
    space = LinearScores(p.candidates, ClassBlocks(3))
    risk = LinearisedSlack(make(p, math.inf), space.origin().scores, delta_at(p, h))
    solution = bundle(Regularised(space, risk, C), space.origin(), tol=1e-8)
    assert solution.value == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, math.inf])
def test_what_a_class_lacks_counts_for_nothing(alpha):
    p, joint = problem(3, n=9, most=5), SharedWeights(3)
    lacks = joint.lacks(p.candidates)
    w = some_w(p, 0)[:7]
    table = joint.scores(p.candidates, w)
    expected = m3e_slack(p, by_class(p, w.numpy(), shared_weights(p), lacks.numpy()), alpha)
    slack = make(p, alpha)
    assert slack.each(table).tolist() == pytest.approx(expected, abs=1e-8)
    weights = LinearisedSlack(slack, joint.scores(p.candidates, some_w(p, 1)[:7])).weights(table)
    assert bool(weights.isfinite().all())
    assert float(weights[lacks].abs().sum()) == 0


def test_single_precision_with_a_large_order_agrees_with_double():
    p, single = problem(0, n=8), problem(0, n=8, dtype=torch.float32)
    w = some_w(p, 0, 5.0)
    table = ClassBlocks(3).scores(p.candidates, w)
    for alpha in (1.0, 100.0, 1e6):
        found = make(single, alpha).each(ClassBlocks(3).scores(single.candidates, w))
        torch.testing.assert_close(found, make(p, alpha).each(table), atol=1e-4, rtol=0)
        weights = LinearisedSlack(make(single, alpha), table.float()).weights(table.float())
        torch.testing.assert_close(weights, LinearisedSlack(make(p, alpha), table).weights(table), atol=2e-3, rtol=0)
