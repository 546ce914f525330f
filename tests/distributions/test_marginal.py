import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learners.soft_references import entropy
from references import SMALL, random_problem

from lvmdc.distributions import LinearPrediction, MarginalPrediction, MinEntropyPrediction, Posterior, neg_entropy, neg_entropy_gradient
from lvmdc.feature_maps import ClassBlocks


def weights(problem, seed=0):
    return torch.randn(3, problem.candidates.n_features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(problem, w, value):
    """(y, h): the class of highest value, then its best candidate."""
    table, found = problem.candidates.features.double() @ w.T, []
    for rows in table.split(problem.candidates.counts.tolist()):
        y = max(range(3), key=lambda k: value(rows[:, k].tolist()))
        found.append((y, int(rows[:, y].argmax())))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_marginal_prediction_sums_over_candidates(seed):
    problem = random_problem((5, 1, 4, 6, 3, 2), seed=seed)
    w = weights(problem, seed)
    y, h = MarginalPrediction(w).predict(problem.candidates)
    assert list(zip(y.tolist(), h.tolist(), strict=True)) == by_hand(problem, w, lambda s: sum(math.exp(v) for v in s))


@pytest.mark.parametrize("seed", range(5))
def test_of_infinite_order_the_prediction_is_the_best_pair(seed):
    problem = random_problem((5, 1, 4, 6, 3, 2), seed=seed)
    w = weights(problem, seed)
    one, two = MinEntropyPrediction(w, alpha=math.inf), LinearPrediction(w)
    for a, b in zip(one.predict(problem.candidates), two.predict(problem.candidates), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(one.top_k(problem.candidates, 4), two.top_k(problem.candidates, 4), strict=True):
        torch.testing.assert_close(a.double(), b.double(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_the_first_of_the_k_best_is_the_prediction_and_ranks_fall(alpha):
    problem = random_problem((5, 1, 4, 6, 3, 2), seed=1)
    prediction = MinEntropyPrediction(weights(problem), alpha=alpha)
    y, h = prediction.predict(problem.candidates)
    ys, hs, values = prediction.top_k(problem.candidates, 3)
    assert torch.equal(ys[:, 0], y)
    assert torch.equal(hs[:, 0], h)
    best = prediction.class_values(problem.candidates, prediction.scores(problem.candidates)).amax(dim=1)
    torch.testing.assert_close(values[:, 0], best.detach())
    assert bool((values[:, 1:] <= values[:, :-1]).all())


def test_the_posterior_is_the_softmax_of_the_features_not_of_phi():
    problem = random_problem((3, 2), seed=2)
    candidates = problem.candidates
    candidates.phi = torch.randn(5, 7, dtype=torch.float64)
    w = weights(problem)
    found = Posterior(w, ClassBlocks(3))(candidates, [2, 0]).p
    expected = torch.cat([(candidates.features[:3] @ w[2]).softmax(0), (candidates.features[3:] @ w[0]).softmax(0)])
    torch.testing.assert_close(found, expected)


ALPHAS = [0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 7.0, 1000.0, math.inf]
SCORES = st.lists(st.floats(-8, 8), min_size=1, max_size=6)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(SCORES, SCORES)
@SMALL
def test_it_is_the_entropy_by_definition_without_log_z(alpha, one, two):
    total = sum(math.exp(s) for s in one + two)  # any Z will do
    found = neg_entropy(torch.tensor(one + two, dtype=torch.float64), torch.tensor([len(one), len(two)]), alpha)
    for scores, value in zip((one, two), found.tolist(), strict=True):
        P = {h: math.exp(s) / total for h, s in enumerate(scores)}
        assert value == pytest.approx(math.log(total) - entropy(P, alpha), abs=1e-8)


@pytest.mark.parametrize("alpha", ALPHAS[:-1])
@given(SCORES)
@SMALL
def test_the_gradient_is_that_of_the_value_and_sums_to_one(alpha, scores):
    s, counts = torch.tensor(scores, dtype=torch.float64), torch.tensor([len(scores)])
    gradient = neg_entropy_gradient(s, counts, alpha)
    assert float(gradient.sum()) == pytest.approx(1, abs=1e-9)
    for h in range(len(s)):
        step = torch.zeros_like(s).index_fill(0, torch.tensor([h]), 1e-5)
        slope = (neg_entropy(s + step, counts, alpha) - neg_entropy(s - step, counts, alpha)) / 2e-5
        assert float(gradient[h]) == pytest.approx(float(slope), abs=1e-3 if alpha == 1000.0 else 1e-5)


@given(SCORES)
@SMALL
def test_it_rises_with_the_order_from_the_mean_to_the_highest_score(scores):
    s, counts = torch.tensor(scores, dtype=torch.float64), torch.tensor([len(scores)])
    values = [float(neg_entropy(s, counts, alpha)) for alpha in ALPHAS]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(values))
    assert values[-1] == max(scores)
    assert values[-2] >= max(scores) - math.log(len(scores)) / 999


@pytest.mark.parametrize("alpha", [1 - 1e-5, 1 + 1e-5, 1 + 1e-9])
def test_it_is_continuous_at_one(alpha):
    s, counts = torch.tensor([0.3, -2.0, 5.0, 4.0], dtype=torch.float64), torch.tensor([3, 1])
    torch.testing.assert_close(neg_entropy(s, counts, alpha), neg_entropy(s, counts, 1.0), atol=1e-4, rtol=0)
    torch.testing.assert_close(neg_entropy_gradient(s, counts, alpha), neg_entropy_gradient(s, counts, 1.0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_large_scores_and_orders_neither_overflow_nor_lose_their_digits(alpha, shift):
    counts = torch.tensor([3])
    small = torch.tensor([0.0, -1.0, -3.0])
    found = neg_entropy((small.double() + shift).float(), counts, alpha)
    exact = neg_entropy((small.double() + shift).float().double(), counts, alpha)
    assert torch.equal(found, exact)
    torch.testing.assert_close(exact - shift, neg_entropy(small, counts, alpha), atol=2e-3, rtol=0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_candidates_that_a_class_lacks_count_for_nothing(alpha):
    gone = -torch.inf
    table = torch.tensor([[1.0, gone, gone], [2.0, 0.5, gone], [0.0, 1.0, gone]], dtype=torch.float64)
    value, gradient = neg_entropy(table, torch.tensor([3]), alpha), neg_entropy_gradient(table, torch.tensor([3]), alpha)
    assert float(value[0, 1]) == pytest.approx(float(neg_entropy(torch.tensor([0.5, 1.0]), torch.tensor([2]), alpha)), abs=1e-12)
    assert float(value[0, 2]) == gone
    assert bool(gradient.isfinite().all())
    assert float(gradient[0, 1]) == 0
    assert float(gradient[:, 2].abs().sum()) == 0
