"""M3E against its own equations by loops, and against the support vector machines that it contains."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.problems import LOSSES, Problem, SharedWeights, delta, expected_loss, problem, random_h, shared_weights, structural_svm
from learners.soft_references import entropy, m3e_slack, posterior, probabilities, scores
from references import SMALL

from lvmdc import LSVM, M3E, CostLoss, FunctionLoss, LabelLoss, OverlapLoss, ZeroOneLoss

RAGGED = st.builds(
    lambda seed, n, most, K: problem(seed, n=max(n, K), most=most, K=K),
    st.integers(0, 99),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 3),
)
ALPHAS = [0.5, 1.0, 1.1, 2.0, 20.0, math.inf]


def objective(p: Problem, w: np.ndarray, C: float, alpha: float, name: str = "label", known: list[int] | None = None, **map_of) -> float:
    return 0.5 * float(w @ w) + C * float(np.mean(m3e_slack(p, scores(p, w, **map_of), alpha, name, known)))


@pytest.mark.parametrize(("alpha", "name"), [*((a, "label") for a in ALPHAS), (2.0, "zero_one"), (1.0, "overlap"), (0.5, "cost")])
def test_the_objective_is_that_by_enumeration_with_the_label_part_of_the_loss(alpha, name):
    p, C = problem(1, n=7, most=4, signal=3), 2.0
    model = M3E(LOSSES[name], C=C, alpha=alpha).fit(p.candidates, p.y)
    w, row = model.coef_.flatten().numpy(), model.history_[-1]
    assert model.objective_ == pytest.approx(objective(p, w, C, alpha, name), abs=1e-7)
    assert row["objective"] == pytest.approx(row["w_norm"] + C * row["slack"], rel=1e-12)
    assert row["w_norm"] == pytest.approx(0.5 * float(w @ w))
    # The score is by the whole loss.
    y, h = model.predict(p.candidates)
    boxes = p.candidates.boxes.double().numpy()
    losses = [delta(name, boxes[p.of(i).start : p.of(i).stop], int(p.y[i]), int(p.h[i]), int(y[i]), int(h[i])) for i in range(7)]
    assert model.score(p.candidates, p.y, p.h) == pytest.approx(1 - np.mean(losses), abs=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_it_predicts_the_class_of_least_entropy_then_its_best_candidate(alpha):
    p = problem(2, n=20, most=5, signal=2)
    model = M3E(LabelLoss(), C=1.0, alpha=alpha, tol=1e-2).fit(p.candidates, p.y)
    y, h = model.predict(p.candidates)
    for i, table in enumerate(scores(p, model.coef_.flatten().numpy())):
        P = probabilities(table)
        k = min(range(3), key=lambda k, P=P: entropy(P[k], alpha))
        assert (int(y[i]), int(h[i])) == (k, max(table[k], key=table[k].get))
    assert model.history_[-1]["error"] == pytest.approx(float((y != p.y).double().mean()))
    belief = model.predict_latent_proba(p.candidates, p.y)
    expected = [q for i, table in enumerate(scores(p, model.coef_.flatten().numpy())) for q in posterior(table[int(p.y[i])]).values()]
    np.testing.assert_allclose(belief.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(RAGGED, st.sampled_from([0.1, 2.0, 10.0]), st.sampled_from(["random", "uniform", "central"]))
@settings(SMALL, max_examples=4)
def test_the_objective_never_rises(alpha, p, C, init):
    model = M3E(LabelLoss(), C=C, alpha=alpha, init=init, tol=1e-3)
    model.begin(p.candidates, p.y)
    values = []
    while not model.converged_ and model.n_iter_ < 6:
        model.step()
        values.append(objective(p, model.coef_.flatten().numpy(), C, alpha))
    assert all(after <= before + 1e-9 * C for before, after in itertools.pairwise(values))
    decreases = [row["decrease"] for row in model.history_[1:]]
    assert decreases == pytest.approx([a - b for a, b in itertools.pairwise(values)], abs=1e-7 * C)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("name", ["label", "cost"])
def test_with_one_candidate_per_sample_it_is_the_svm_of_crammer_and_singer(alpha, name):
    p, C = problem(0, n=15, d=4, most=1, signal=1), 3.0
    nothing = torch.zeros(15, dtype=torch.long)
    optimum, w = structural_svm(p, expected_loss(name, p, torch.ones(15)), nothing, C)
    model = M3E(LOSSES[name], C=C, alpha=alpha, tol=1e-6).fit(p.candidates, p.y)
    assert model.objective_ == pytest.approx(optimum, abs=1e-5)
    np.testing.assert_allclose(model.coef_.flatten().numpy(), w, atol=5e-3)


# ---- infinite order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_of_infinite_order_it_is_the_latent_svm(seed):
    p, C = problem(seed, n=12, most=4, signal=4), 2.0
    h = torch.where(torch.arange(12) % 4 == 0, random_h(p, seed), p.h)  # near enough to one optimum for both to find it
    shared = {"loss": LabelLoss(), "C": C, "init": "given", "tol": 1e-6}
    ours, svm = (learner.fit(p.candidates, p.y, h_init=h) for learner in (M3E(alpha=math.inf, **shared), LSVM(**shared)))
    assert ours.objective_ == pytest.approx(svm.objective_, abs=1e-4)
    assert ours.history_[-1]["slack"] == pytest.approx(svm.history_[-1]["slack"], abs=1e-3)
    # On the same w, prediction and objective are the same exactly.
    ours.coef_ = svm.coef_
    for one, two in zip(ours.predict(p.candidates), svm.predict(p.candidates), strict=True):
        assert torch.equal(one, two)
    assert objective(p, svm.coef_.flatten().numpy(), C, math.inf) == pytest.approx(svm.objective_, abs=1e-9)


def test_of_infinite_order_with_h_known_it_is_the_supervised_svm():
    p, C = problem(2, n=10, signal=1), 4.0
    labels = np.array([[float(k != int(p.y[i])) for k in range(3)] for i in range(10) for _ in p.of(i)])
    optimum, _ = structural_svm(p, labels, p.h, C)
    model = M3E(LabelLoss(), C=C, alpha=math.inf, tol=1e-6).fit(p.candidates, p.y, h=p.h)
    assert model.objective_ == pytest.approx(optimum, abs=1e-5)


def test_a_large_order_comes_near_to_the_infinite_one():
    p, C = problem(3, n=8, most=4, signal=4), 1.0
    shared = {"loss": LabelLoss(), "C": C, "init": "given"}
    limit = M3E(alpha=math.inf, **shared).fit(p.candidates, p.y, h_init=p.h)
    w = limit.coef_.flatten().numpy()
    apart = [abs(objective(p, w, C, alpha) - limit.objective_) for alpha in (4.0, 40.0, 4000.0)]
    assert apart[0] > apart[1] > apart[2]
    assert all(d <= 2 * C * math.log(4) / (alpha - 1) for d, alpha in zip(apart, (4.0, 40.0, 4000.0), strict=True))
    assert M3E(alpha=4000.0, **shared).fit(p.candidates, p.y, h_init=p.h).objective_ == pytest.approx(limit.objective_, abs=2e-3)


def test_near_one_it_is_continuous():
    p, C = problem(4, n=6, most=4, signal=1), 1.0
    values = [M3E(LabelLoss(), C=C, alpha=a, init="uniform").fit(p.candidates, p.y).objective_ for a in (0.999, 1.0, 1.001)]
    assert values == pytest.approx([values[1]] * 3, abs=3e-3)


# ---- latents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0, math.inf])
def test_h_known_for_some_stays_fixed_and_the_rest_is_learned(alpha):
    p, C = problem(3, n=8, most=4, signal=3), 1.0
    known = torch.where(torch.arange(8) % 2 == 0, p.h, -1)
    model = M3E(LabelLoss(), C=C, alpha=alpha).fit(p.candidates, p.y, h=known)
    assert model.objective_ == pytest.approx(objective(p, model.coef_.flatten().numpy(), C, alpha, known=known.tolist()), abs=1e-7)
    values = [row["objective"] for row in model.history_]
    assert values == sorted(values, reverse=True)
    assert (model._training.p[(p.candidates.offsets + p.h)[::2]] == 1).all()
    free = M3E(LabelLoss(), C=C, alpha=alpha).fit(p.candidates, p.y)
    assert free.objective_ != pytest.approx(model.objective_, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0, math.inf])
def test_a_custom_joint_map(alpha):
    p, C = problem(9, n=8, most=5, signal=3), 1.0
    joint = SharedWeights(3)
    lacks = joint.lacks(p.candidates)
    model = M3E(LabelLoss(), C=C, alpha=alpha, joint=joint).fit(p.candidates, p.y)
    map_of = {"psi": shared_weights(p), "lacks": lacks.numpy()}
    assert model.objective_ == pytest.approx(objective(p, model.coef_.numpy(), C, alpha, **map_of), abs=1e-7)
    values = [row["objective"] for row in model.history_]
    assert values == sorted(values, reverse=True)
    y, h = model.predict(p.candidates)
    assert not lacks[p.candidates.offsets + h, y].any()


def test_single_precision_with_a_large_order_agrees_with_double():
    values = []
    for dtype in (torch.float32, torch.float64):
        p = problem(0, n=10, dtype=dtype, signal=3)
        values.append(M3E(C=5.0, alpha=1000.0, init="given").fit(p.candidates, p.y, h_init=p.h).objective_)
    assert values[0] == pytest.approx(values[1], rel=5e-3)


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, "large"])
def test_an_order_that_is_none(alpha):
    p = problem(0)
    with pytest.raises(ValueError, match=f"alpha must be a positive number or infinity, but it is {alpha}"):
        M3E(alpha=alpha).fit(p.candidates, p.y)


def test_a_loss_that_depends_on_h_between_classes():
    p = problem(0)
    with pytest.raises(ValueError, match=r"M3E needs a loss whose Δ between classes does not depend on h, but FunctionLoss\(.*\) has no"):
        M3E(FunctionLoss(lambda y1, h1, y2, h2: (y1 != y2).double())).fit(p.candidates, p.y)
    for loss in (None, ZeroOneLoss(), OverlapLoss(), LabelLoss(), CostLoss([[0, 1, 1], [2, 0, 1], [1, 1, 0]], OverlapLoss())):
        M3E(loss, C=0.1).begin(p.candidates, p.y)
