"""EM against its own equations by loops, and against logistic regression."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learners.problems import Problem, SharedWeights, problem, random_h, shared_weights
from learners.soft_references import nll, posterior, scores
from references import SMALL
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from lvmdc import EM, LabelLoss
from lvmdc.learners import likelihood as soft

RAGGED = st.builds(
    lambda seed, n, most, K: problem(seed, n=max(n, K), most=most, K=K),
    st.integers(0, 99),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 3),
)


def objective(p: Problem, w: np.ndarray, C: float, known: list[int] | None = None, **map_of) -> float:
    return 0.5 * float(w @ w) + C * nll(p, scores(p, w, **map_of), known)


def numerical_gradient(function, w: np.ndarray) -> np.ndarray:
    return np.array([(function(w + 1e-6 * e) - function(w - 1e-6 * e)) / 2e-6 for e in np.eye(len(w))])


@pytest.mark.parametrize("C", [0.1, 5.0, 100.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_objective_and_its_gradient_are_those_by_enumeration(C, seed):
    p = problem(seed, n=7, signal=3)
    model = EM(C=C, seed=seed).fit(p.candidates, p.y)
    w, row = model.coef_.flatten().numpy(), model.history_[-1]
    assert model.objective_ == pytest.approx(objective(p, w, C), rel=1e-9)
    assert row["nll"] == pytest.approx(nll(p, scores(p, w)), rel=1e-9)
    assert row["objective"] == pytest.approx(row["w_norm"] + C * row["nll"], rel=1e-12)
    by_hand = np.linalg.norm(numerical_gradient(lambda v: objective(p, v, C), w))
    assert row["gradient"] == pytest.approx(by_hand, abs=2e-5 * C)


def test_it_ends_where_the_gradient_is_zero():
    p = problem(1, n=10, signal=3)
    model = EM(C=10.0, tol=1e-9, max_iter=500).fit(p.candidates, p.y)
    gradient = numerical_gradient(lambda v: objective(p, v, 10.0), model.coef_.flatten().numpy())
    assert np.abs(gradient).max() < 2e-3
    assert model.converged_


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_an_outer_iteration_is_an_exact_e_and_m_step(C, monkeypatch):
    monkeypatch.setattr(soft, "FIRST", 0.0)
    p = problem(2, n=6, signal=3)
    h = random_h(p, 0)
    x, n, K, d = p.candidates.features.numpy(), len(p.y), 3, 4
    belief = np.zeros(len(x))
    belief[(p.candidates.offsets + h).numpy()] = 1.0
    model = EM(C=C, init="given")
    model.begin(p.candidates, p.y, h_init=h)
    for _ in range(2):

        def complete(v: np.ndarray, belief=belief) -> tuple[float, np.ndarray]:
            """−log P_w(y_i, h | x_i) expected under the belief, with its gradient, by loops."""
            table, value, gradient = v.reshape(K, d), 0.5 * v @ v, v.reshape(K, d).copy()
            for i in range(n):
                rows, label = list(p.of(i)), int(p.y[i])
                s = x[rows] @ table.T
                log_z = math.log(np.exp(s - s.max()).sum()) + s.max()
                value += C / n * (log_z - sum(belief[r] * s[j, label] for j, r in enumerate(rows)))
                P = np.exp(s - log_z)
                for j, r in enumerate(rows):
                    for k in range(K):
                        gradient[k] += C / n * (P[j, k] - (belief[r] if k == label else 0.0)) * x[r]
            return value, gradient.ravel()

        found = minimize(complete, np.zeros(K * d), jac=True, method="L-BFGS-B", options={"maxiter": 9999, "ftol": 1e-15, "gtol": 1e-9})
        model._training.inner = min(model._training.inner, 0.0) if model.n_iter_ else math.inf  # as exactly as can be
        model._training.tolerance = 0.0
        model._beyond = lambda: False
        model.step()
        np.testing.assert_allclose(model.coef_.flatten().numpy(), found.x, atol=5e-4)
        table = scores(p, model.coef_.flatten().numpy())
        belief = np.concatenate([list(posterior(table[i][int(p.y[i])]).values()) for i in range(n)])
        np.testing.assert_allclose(model._training.p.numpy(), belief, atol=1e-9)


@pytest.mark.slow
@given(RAGGED, st.sampled_from([0.1, 3.0, 100.0]), st.sampled_from(["random", "uniform", "central"]))
@SMALL
def test_the_likelihood_never_falls(p, C, init):
    model = EM(C=C, init=init, tol=1e-5)
    model.begin(p.candidates, p.y)
    values = []
    while not model.converged_ and model.n_iter_ < 15:
        model.step()
        values.append(objective(p, model.coef_.flatten().numpy(), C))
    assert all(after <= before + 1e-9 * C for before, after in itertools.pairwise(values))
    decreases = [row["decrease"] for row in model.history_[1:]]
    assert decreases == pytest.approx([a - b for a, b in itertools.pairwise(values)], abs=1e-8 * C)


@pytest.mark.parametrize("C", [0.1, 3.0, 300.0])
def test_with_one_candidate_per_sample_it_is_multinomial_logistic_regression(C):
    p = problem(0, n=30, d=5, most=1, signal=1)
    model = EM(C=C, tol=1e-9).fit(p.candidates, p.y)
    peer = LogisticRegression(C=C / 30, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(p.candidates.features.numpy(), p.y.numpy())
    assert model.objective_ == pytest.approx(objective(p, peer.coef_.ravel(), C), rel=1e-7)
    np.testing.assert_allclose(model.coef_.numpy(), peer.coef_, atol=1e-3)
    assert model.predict(p.candidates)[0].tolist() == peer.predict(p.candidates.features.numpy()).tolist()
    probability = peer.predict_proba(p.candidates.features.numpy())
    assert model.history_[-1]["nll"] == pytest.approx(-np.log(probability[np.arange(30), p.y.numpy()]).mean(), abs=1e-4)


def test_with_h_known_it_is_logistic_regression_over_pairs():
    p, C = problem(3, n=8, signal=2), 5.0
    known = p.h.tolist()
    found = minimize(lambda v: objective(p, v, C, known), np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    model = EM(C=C, tol=1e-9).fit(p.candidates, p.y, h=p.h)
    assert model.objective_ == pytest.approx(found.fun, abs=1e-6)
    assert model.history_[-1]["entropy"] == 0


def test_h_known_for_some_stays_fixed_and_the_rest_is_learned():
    p, C = problem(3, n=12, most=5, signal=3), 5.0
    known = torch.where(torch.arange(12) % 2 == 0, p.h, -1)
    model = EM(C=C).fit(p.candidates, p.y, h=known)
    assert model.objective_ == pytest.approx(objective(p, model.coef_.flatten().numpy(), C, known.tolist()), rel=1e-9)
    belief = model._training.p
    assert (belief[(p.candidates.offsets + p.h)[::2]] == 1).all()
    free = belief[torch.isin(p.candidates.sample, torch.arange(1, 12, 2))]
    assert float(free.sum()) == pytest.approx(6)
    assert bool(((free > 0) & (free < 1)).any())


def test_it_predicts_by_the_marginal_and_not_by_the_best_pair():
    p = problem(4, n=40, most=5, signal=2)
    marginal = EM(C=20.0).fit(p.candidates, p.y)
    table = scores(p, marginal.coef_.flatten().numpy())
    classes = [max(range(3), key=lambda k, s=s: sum(math.exp(v) for v in s[k].values())) for s in table]
    pairs = [max((v, k, h) for k in range(3) for h, v in s[k].items())[1:] for s in table]
    y, h = marginal.predict(p.candidates)
    assert y.tolist() == classes
    assert h.tolist() == [max(s[k], key=s[k].get) for s, k in zip(table, classes, strict=True)]
    assert classes != [k for k, _ in pairs]
    assert marginal.history_[-1]["error"] == pytest.approx(float((y != p.y).double().mean()))


def test_the_posterior_is_that_of_w_for_any_class():
    p = problem(5, n=6, most=4, signal=3)
    model = EM(C=10.0).fit(p.candidates, p.y)
    table = scores(p, model.coef_.flatten().numpy())
    for k in range(3):
        belief = model.predict_latent_proba(p.candidates, torch.full_like(p.y, k))
        expected = [q for of_sample in table for q in posterior(of_sample[k]).values()]
        np.testing.assert_allclose(belief.numpy(), expected, atol=1e-9)


def test_the_loss_measures_and_does_not_teach():
    p = problem(6, n=10, most=4)
    one, two = EM(LabelLoss(), C=3.0).fit(p.candidates, p.y), EM(C=3.0).fit(p.candidates, p.y)
    assert torch.equal(one.coef_, two.coef_)
    assert one.history_[-1]["loss"] == pytest.approx(one.history_[-1]["error"])
    assert two.history_[-1]["loss"] > two.history_[-1]["error"]


def test_a_custom_joint_map():
    p, C = problem(9, n=8, most=5, signal=3), 5.0
    joint = SharedWeights(3)
    lacks = joint.lacks(p.candidates)
    model = EM(C=C, joint=joint, tol=1e-8).fit(p.candidates, p.y)
    map_of = {"psi": shared_weights(p), "lacks": lacks.numpy()}
    assert model.coef_.shape == (7,)
    assert model.objective_ == pytest.approx(objective(p, model.coef_.numpy(), C, **map_of), rel=1e-9)
    assert np.abs(numerical_gradient(lambda v: objective(p, v, C, **map_of), model.coef_.numpy())).max() < 5e-3
    y, h = model.predict(p.candidates)
    assert not lacks[p.candidates.offsets + h, y].any()
    for k in range(3):
        belief = model.predict_latent_proba(p.candidates, torch.full_like(p.y, k))
        assert float(belief[lacks[:, k]].sum()) == 0
