"""What must hold exactly: the special cases of the framework, and the descent of its objective."""

import numpy as np
import pytest
import torch
from learners.problems import (
    LOSSES,
    Problem,
    class_blocks,
    delta,
    delta_at,
    expected_loss,
    latent_svm_value,
    problem,
    random_h,
    scores,
    self_diversity,
    softmax_posterior,
    structural_svm,
)
from sklearn.svm import LinearSVC

from lvmdc import DISC, ILSVM, LSVM, Supervised


@pytest.mark.parametrize(
    "settings",
    [
        {"J": 0.1, "beta": 0.1},
        {"J": 5.0, "beta": 0.9, "theta_bound": "slack"},
        {"conditional": "uniform"},
        {"J": 0.0, "conditional": torch.nn.Linear(4, 3, dtype=torch.float64)},
    ],
)
@pytest.mark.parametrize(
    ("solver", "seed"),
    [(("n_slack", "inexact"), 0), (("n_slack", "eager"), 1), (("n_slack", "self_paced"), 2), (("one_slack", "inexact"), 0)],
    ids=str,
)
def test_disc_is_the_latent_svm_where_the_loss_does_not_depend_on_h(settings, solver, seed):
    p = problem(seed, n=12, signal=3)
    shared = {"loss": LOSSES["label"], "C": 5.0, "tol": 1e-7, "seed": seed, "solver": solver[0], "cccp": solver[1]}
    lsvm = LSVM(**shared).fit(p.candidates, p.y)
    disc = DISC(**shared, **settings).fit(p.candidates, p.y)
    assert disc.objective_ == pytest.approx(lsvm.objective_, abs=2e-6)
    assert disc.history_[-1]["diversity"] == 0


def ilsvm_iteration(p: Problem, name: str, h: torch.Tensor, C: float) -> tuple[float, np.ndarray, list[int]]:
    """One outer iteration by definition: Algorithm 1 with exact convex problems and the loss measured from h; then (15) over deltas.

    Returns (13), w and the new latents.
    """
    losses, star, last = expected_loss(name, p, delta_at(p, h)), h, np.inf
    for _ in range(50):
        _, w = structural_svm(p, losses, star, C)
        table = scores(p, w)
        value = latent_svm_value(p, losses, w, C)
        star = torch.tensor([int(np.argmax([table[r, int(p.y[i])] for r in p.of(i)])) for i in range(len(p.y))])
        if last - value < 1e-9:
            break
        last = value
    new = []
    for i in range(len(p.y)):
        rows, y = list(p.of(i)), int(p.y[i])
        boxes = p.candidates.boxes.double().numpy()[rows]
        _, k, g = max((table[r, k], k, g) for g, r in enumerate(rows) for k in range(p.n_classes))
        loss = [delta(name, boxes, y, a, k, g) for a in range(len(rows))]
        least = [a for a in range(len(rows)) if loss[a] <= min(loss) + 1e-12]
        new.append(max(least, key=lambda a: table[rows[a], y]))
    return value, w, new


@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_outer_iteration_of_ilsvm_is_that_of_disc_with_deltas(name, seed):
    p, C = problem(seed, n=9, signal=4), 5.0
    h = p.h if seed else random_h(p, 0)
    value, w, new = ilsvm_iteration(p, name, h, C)
    model = ILSVM(LOSSES[name], C=C, tol=1e-9, init="given")
    model.begin(p.candidates, p.y, h_init=h)
    row = model.step()
    found = model.coef_.flatten().numpy()
    assert latent_svm_value(p, expected_loss(name, p, delta_at(p, h)), found, C) == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found, w, atol=1e-3)
    assert torch.equal(model._training.p, delta_at(p, torch.tensor(new)))
    assert row["diversity"] == 0


@pytest.mark.parametrize("seed", range(2))
def test_with_zero_one_loss_expected_loss_and_diversity_are_their_closed_forms(seed):
    p = problem(seed, n=10, most=5, signal=3)
    model = DISC(C=5.0, seed=seed).fit(p.candidates, p.y)
    belief = model.predict_latent_proba(p.candidates, p.y)
    squares = torch.zeros(10, dtype=torch.float64).index_add(0, p.candidates.sample, belief**2)
    y_hat, h_hat = model.predict(p.candidates)
    agreed = torch.where(y_hat == p.y, 1 - belief[p.candidates.offsets + h_hat], 1.0)
    assert model.history_[-1]["diversity"] == pytest.approx(float((1 - squares).mean()), abs=1e-9)
    assert model.history_[-1]["loss"] == pytest.approx(float(agreed.mean()), abs=1e-9)


@pytest.mark.parametrize("C", [0.1, 3.0])
def test_with_one_candidate_per_sample_disc_is_the_svm_of_crammer_and_singer(C):
    p = problem(0, n=30, d=5, most=1, signal=1)
    model = DISC(C=C, tol=1e-7).fit(p.candidates, p.y)
    x, y = p.candidates.features.numpy(), p.y.numpy()
    peer = LinearSVC(multi_class="crammer_singer", C=C / 30, fit_intercept=False, tol=1e-9, max_iter=100_000).fit(x, y)
    losses = expected_loss("zero_one", p, torch.ones(30))
    optimum, _ = structural_svm(p, losses, torch.zeros(30, dtype=torch.long), C)
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    assert model.objective_ == pytest.approx(latent_svm_value(p, losses, peer.coef_.ravel(), C), rel=1e-4)


@pytest.mark.parametrize("name", ["zero_one", "overlap", "cost", "function"])
def test_with_h_known_disc_is_the_supervised_structural_svm(name):
    p, C = problem(2, n=10, signal=1), 4.0
    optimum, _ = structural_svm(p, expected_loss(name, p, delta_at(p, p.h)), p.h, C)
    for learner in (DISC, ILSVM, LSVM, Supervised):
        model = learner(LOSSES[name], C=C, tol=1e-7).fit(p.candidates, p.y, h=p.h)
        assert model.objective_ == pytest.approx(optimum, abs=2e-6), learner.__name__
        assert model.history_[-1]["diversity"] == 0
        assert model.history_[-1]["entropy"] == 0


@pytest.mark.parametrize("learner", [DISC, ILSVM, LSVM])
def test_h_known_for_some_stays_fixed_and_the_rest_is_learned(learner):
    p = problem(3, n=16, most=5, signal=4)
    known = torch.where(torch.arange(16) % 2 == 0, p.h, -1)
    model = learner(LOSSES["zero_one"], C=10.0).fit(p.candidates, p.y, h=known)
    t = model._training
    rows = (p.candidates.offsets + p.h)[::2]
    assert (t.p[rows] == 1).all()
    assert torch.equal(t.imputed()[::2], rows)
    torch.testing.assert_close(float(t.p.sum()), 16.0)
    free = learner(LOSSES["zero_one"], C=10.0).fit(p.candidates, p.y)
    assert model.objective_ != pytest.approx(free.objective_, abs=1e-6)


@pytest.mark.parametrize(("C", "seed"), [(0.1, 0), (10.0, 1)])
@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
def test_with_the_slack_bound_the_objective_never_rises(name, C, seed):
    p = problem(seed, n=12, most=5, signal=3)
    model = DISC(LOSSES[name], C=C, theta_bound="slack", init="random", seed=seed, tol=1e-5)  # P_θ is that of θ = 0 from the beginning
    model.begin(p.candidates, p.y)
    values = [model._objective().value]
    while not model.converged_ and model.n_iter_ < 30:
        row = model.step()
        values.append(row["objective"])
        assert row["decrease"] == pytest.approx(values[-2] - values[-1], abs=1e-7 * C)
    assert (np.diff(values) <= 1e-9 * C).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("learner", [DISC, ILSVM])
@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
@pytest.mark.parametrize("seed", range(2))
def test_each_block_lowers_its_own_objective(learner, name, seed):
    p = problem(seed, n=12, most=5, signal=3)
    model = learner(LOSSES[name], C=10.0, seed=seed).fit(p.candidates, p.y)
    for row in model.history_:
        assert row["w_decrease"] >= -1e-8
        assert row["posterior_decrease"] >= -1e-8


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_the_objective_is_11_by_its_definition(name, theta_bound):
    p = problem(1, n=8, most=4, signal=3, phi=3)
    C, J, beta = 6.0, 0.2, 0.3
    model = DISC(LOSSES[name], C=C, J=J, beta=beta, theta_bound=theta_bound).fit(p.candidates, p.y)
    w, theta = model.coef_.numpy(), model.theta_.numpy()
    assert w.shape == (3, 4)
    assert theta.shape == (3, 3)
    belief = softmax_posterior(p, theta)
    losses = expected_loss(name, p, torch.as_tensor(belief))
    diversity = self_diversity(name, p, belief).mean()
    by_hand = latent_svm_value(p, losses, w.ravel(), C) + J / 2 * (theta**2).sum() - C * beta * diversity
    assert model.objective_ == pytest.approx(by_hand, abs=1e-6)
    row = model.history_[-1]
    assert row["w_norm"] == pytest.approx(0.5 * (w**2).sum())
    assert row["theta_norm"] == pytest.approx(J / 2 * (theta**2).sum())
    assert row["diversity"] == pytest.approx(diversity, abs=1e-6)
    entropy = -sum(q * np.log(q) for q in belief) / 8
    assert row["entropy"] == pytest.approx(entropy, abs=1e-6)
    psi = class_blocks(p)
    best = [max((w.ravel() @ psi(r, k), k, r) for r in p.of(i) for k in range(3)) for i in range(8)]
    assert row["error"] == pytest.approx(np.mean([k != int(y) for (_, k, _), y in zip(best, p.y, strict=True)]))
    assert row["loss"] == pytest.approx(np.mean([losses[r, k] for _, k, r in best]), abs=1e-6)
