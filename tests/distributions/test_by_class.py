import math

import pytest
import torch
from references import random_problem

from lvmdc.distributions import LinearPrediction, MarginalPrediction, MinEntropyPrediction, Posterior
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
