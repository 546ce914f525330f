"""Sparse norms, and dual averaging against convex programs of a general solver on problems small enough to list every plane."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from three_digits import tiny_data, train
from torch import nn

from lvmdc import DISC, LSVM, Candidates, LabelLoss, Supervised, ZeroOneLoss
from lvmdc.distributions import LinearPrediction
from lvmdc.lightning import SparseModule
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import TrainingSet
from lvmdc.lightning.sparse import DualAveraging, norm_value, prox

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")
N, H, D, K, C = 24, 3, 10, 3, 10.0


@cache
def problem():
    """Samples whose class and candidate show in the first features alone; the others are noise."""
    rng = np.random.default_rng(0)
    y, h = rng.integers(K, size=N), rng.integers(H, size=N)
    features = 0.5 * rng.normal(size=(N, H, D))
    features[np.arange(N), h, y] += 1.5
    return features, y, h


@cache
def reference(norm):
    """min Ω(w) + C/n Σ ξ_i, ξ_i ≥ w·Ψ(x_i, y, h) + Δ(y_i, h_i, y, h) − w·Ψ(x_i, y_i, h_i) for all y, h: (w, value)."""
    features, y, h = problem()
    rows, losses = [], []
    for i in range(N):
        for j in range(H):
            for k in range(K):
                plane, xi = np.zeros((K, D)), np.zeros(N)
                plane[k] += features[i, j]
                plane[y[i]] -= features[i, h[i]]
                xi[i] = -1
                rows.append((plane.ravel(), xi))
                losses.append(float(j != h[i] or k != y[i]))
    planes, slacks = (np.array(part) for part in zip(*rows, strict=True))
    if norm == "l1":
        cost = np.concatenate([np.ones(2 * K * D), np.full(N, C / N)])
        found = linprog(cost, np.hstack([planes, -planes, slacks]), -np.array(losses), bounds=(0, None))
        return (found.x[: K * D] - found.x[K * D : 2 * K * D]).reshape(K, D), found.fun
    both, small = np.hstack([planes, slacks]), 1e-4

    def value(v):
        lengths = np.sqrt((v[: K * D].reshape(K, D) ** 2).sum(axis=0) + small**2)
        slope = (v[: K * D].reshape(K, D) / lengths).ravel()
        return lengths.sum() + C * v[K * D :].mean(), np.concatenate([slope, np.full(N, C / N)])

    start = np.concatenate([np.zeros(K * D), np.ones(N)])
    limits = {"type": "ineq", "fun": lambda v: -both @ v - losses, "jac": lambda v: -both}
    found = minimize(value, start, jac=True, constraints=limits, method="SLSQP", options={"maxiter": 1000, "ftol": 1e-9})
    assert found.success
    return found.x[: K * D].reshape(K, D), found.fun


def learned(norm, epochs=120, batch=6):
    """The same by dual averaging, and its (11)."""
    features, y, h = problem()
    candidates = Candidates(torch.as_tensor(features.reshape(-1, D)), [H] * N)
    rows = candidates.rows(torch.as_tensor(h))
    start = torch.zeros(N * H, dtype=torch.float64).index_fill(0, rows, 1.0)
    module = Untrained(Supervised(ZeroOneLoss(), C=C), norm=norm, warmup_epochs=0)
    module.samples = TrainingSet(candidates, torch.as_tensor(y), ZeroOneLoss(), K, start, rows)
    module.weights = AveragedWeights(LinearPrediction(torch.zeros(K, D, dtype=torch.float64)), None, decay=8.0, sparse=True)
    module.optimizer, generator = module.make_optimizers()["p_w"]["optimizer"], torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for index in torch.randperm(N, generator=generator).split(batch):
            module.training_step(index, 0)
            module.weights.update("p_w")
    return module.weights.prediction().w, module.measure_objective()[0].value


class Untrained(SparseModule):
    """The steps without a trainer."""

    def manual_backward(self, loss):
        loss.backward()

    def step_optimizers(self):
        self.optimizer.step()


@pytest.mark.parametrize("norm", ["l1", "group"])
def test_it_reaches_the_optimum_of_a_general_solver_and_drops_what_it_drops(norm):
    (optimal, least), (w, value) = reference(norm), learned(norm)
    assert least * (1 - 1e-3) <= value <= 1.03 * least
    assert value == pytest.approx(float(norm_value(norm, w)) + C * value_of_slack(w))
    useful, mine = np.abs(optimal) > 1e-3, (w != 0).numpy()
    if norm == "group":
        useful = useful.any(axis=0)
        assert (mine.any(axis=0) == mine.all(axis=0)).all()  # for all classes or for none
        mine = mine.any(axis=0)
    assert 0 < useful.sum() < useful.size
    assert (mine | ~useful).all()
    assert (~mine).sum() >= 0.5 * (~useful).sum()


def value_of_slack(w):
    """Σ ξ_i / n in loops."""
    features, y, h = problem()
    w, total = w.numpy(), 0.0
    for i in range(N):
        worst = max(features[i, j] @ w[k] + float(j != h[i] or k != y[i]) for j in range(H) for k in range(K))
        total += worst - features[i, h[i]] @ w[y[i]]
    return total / N


@pytest.mark.parametrize("norm", ["l1", "group"])
def test_a_step_minimises_what_it_says(norm):
    rng = np.random.default_rng(1)
    w = nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
    optimizer, gamma, seen = DualAveraging([w], norm, gamma=2.0), 2.0, []
    for t in range(1, 5):
        seen.append(3 * rng.normal(size=(2, 2)))
        w.grad = torch.as_tensor(seen[-1])
        optimizer.step()
        mean = sum(s * g for s, g in enumerate(seen, 1)) / sum(range(1, t + 1))

        def bound(v, mean=mean, t=t):
            v = torch.as_tensor(v.reshape(2, 2))
            return float((torch.as_tensor(mean) * v).sum() + norm_value(norm, v) + gamma / (2 * t**0.5) * v.square().sum())

        options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 40_000}
        found = min((minimize(bound, s, method="Nelder-Mead", options=options) for s in (np.zeros(4), -mean.ravel())), key=lambda r: r.fun)
        assert bound(w.detach().numpy()) <= found.fun + 1e-9


def test_its_state_makes_it_go_on_as_if_unbroken():
    gradients = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))

    def run(optimizer, w, part):
        for gradient in part:
            w.grad = gradient.clone()
            optimizer.step()
        return w

    whole, first, second = (nn.Parameter(torch.zeros(2, 3)) for _ in range(3))
    run(DualAveraging([whole], "l1", 1.0), whole, gradients)
    begun, resumed = DualAveraging([first], "l1", 1.0), DualAveraging([second], "l1", 1.0)
    run(begun, first, gradients[:4])
    resumed.load_state_dict(begun.state_dict())
    torch.testing.assert_close(run(resumed, second, gradients[4:]), whole, rtol=0, atol=0)


def test_a_gamma_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="gamma must be positive, but it is 0"):
        DualAveraging([nn.Parameter(torch.zeros(1, 1))], "l1", gamma=0.0)


@pytest.mark.parametrize("norm", ["l1", "group"])
@pytest.mark.parametrize("step", [0.1, 1.0, 3.0])
def test_the_proximal_step_is_the_minimum_of_its_definition(norm, step):
    w = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3)))

    def definition(v):
        v = torch.as_tensor(v.reshape(w.shape))
        return 0.5 * float((v - w).square().sum()) + step * float(norm_value(norm, v))

    # Neither norm is smooth: a search without derivatives, from several places.
    starts = [w.numpy().ravel(), np.zeros(6), 0.5 * w.numpy().ravel()]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 40_000, "adaptive": True}
    found = min((minimize(definition, s, method="Nelder-Mead", options=options) for s in starts), key=lambda r: r.fun)
    mine = prox(norm, w, step)
    assert definition(mine.numpy()) <= found.fun + 1e-9
    np.testing.assert_allclose(mine.numpy().ravel(), found.x, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "group"])
def test_the_objective_falls_and_exact_zeros_appear(norm):
    data, module = tiny_data(), SparseModule(LSVM(loss=LabelLoss(), C=100.0, init="central"), norm=norm)
    train(module, data, epochs=100)
    last, w = module.history()[-1], module.learned()["coef"]
    assert last["objective"] < 0.7 * module.convergence.origin
    assert last["w_norm"] == pytest.approx(float(norm_value(norm, w)))
    assert last["objective"] == pytest.approx(last["w_norm"] + 100.0 * last["slack"])
    if norm == "group":
        assert torch.equal((w == 0).any(dim=0), (w == 0).all(dim=0))  # for all classes or for none
    assert 0.1 < float((w == 0).double().mean()) < 1.0
    torch.testing.assert_close(module.learner.coef_.to(w), w)
    assert module.learner.score(data.train.candidates, data.train.y) > 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparseModule(DISC(), norm="l3"), "norm must be one of l1, group, but it is 'l3'"),
        (lambda: SparseModule(DISC(), norm="l1", prediction=nn.Linear(2, 3)), "norm='l1' is for a linear P_w"),
        (lambda: SparseModule(LSVM(), norm="l1", optimizer_w=partial(torch.optim.Adam, lr=0.1)), "optimizer_w asks for another optimizer"),
        (lambda: SparseModule(LSVM(), norm="group", scheduler=torch.optim.lr_scheduler.ConstantLR), "no rate, but scheduler would"),
    ],
)
def test_unsupported_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
