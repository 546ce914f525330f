"""The stochastic solver against the exact one, against brute force, and against its own interruption."""

import copy
import warnings
from dataclasses import replace
from functools import cache, partial

import pytest
import pytorch_lightning as pl
import torch
from references import LOSSES, random_problem
from torch import nn

from lvmdc import DISC, ILSVM, LSVM, LabelLoss, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.data.cluttered_digits import cluttered_digits
from lvmdc.distributions import LinearPrediction, LogLinear, NeuralPrediction
from lvmdc.features.hog import HOG
from lvmdc.learners import ConvergenceWarning
from lvmdc.losses import Loss
from lvmdc.proposals.grid import WindowGrid
from lvmdc.training.batch_objective import BatchObjective
from lvmdc.training.batches import TrainingSet
from lvmdc.training.data import LatentDataModule
from lvmdc.training.module import CHECKPOINT_KEY
from lvmdc.training.stochastic import StochasticModule

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")


@cache
def built(per_class, digits, batch_size):
    data = LatentDataModule(
        cluttered_digits(per_class=per_class, digits=digits), WindowGrid(), HOG(), val_fraction=0.2, batch_size=batch_size, progress=False
    )
    data.setup()
    return data


def tiny_data(per_class=12, digits=(0, 2, 4), batch_size=8):
    """A few digits in clutter; what takes time is done once."""
    return copy.copy(built(per_class, digits, batch_size))


def train(module, data, epochs=3, ckpt_path=None, callbacks=()):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=list(callbacks), enable_checkpointing=bool(callbacks), deterministic=True, **quiet
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trainer.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


def network(features, classes=3, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, classes))


# ---- the same as the exact solver --------------------------------------------------------------------------------


LEARNERS = {
    "LSVM, label loss": LSVM(loss=LabelLoss(), C=1.0, init="central"),
    "LSVM, label loss, large C": LSVM(loss=LabelLoss(), C=10.0, init="central"),
    "DISC, 0/1 loss": DISC(loss=ZeroOneLoss(), C=1.0, init="central"),
    "DISC, overlap loss": DISC(loss=OverlapLoss(), C=1.0, init="central"),
    "Supervised, overlap loss": Supervised(loss=OverlapLoss(), C=3.0),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_objective_is_within_two_percent_of_the_exact_solver(name):
    data = tiny_data()
    exact, learner = copy.deepcopy(LEARNERS[name]), copy.deepcopy(LEARNERS[name])
    exact.fit(data.train.candidates, data.train.y, h=data.train.h if isinstance(exact, Supervised) else None)
    module = StochasticModule(learner)
    train(module, data, epochs=80)
    assert module.history()[-1]["objective"] <= 1.02 * exact.objective_
    if isinstance(exact, Supervised):  # convex: no other optimum to end in
        assert module.history()[-1]["objective"] >= 0.995 * exact.objective_
    assert learner.objective_ == module.history()[-1]["objective"]
    y_hat, h_hat = learner.predict(data.test.candidates)
    assert y_hat.shape == h_hat.shape == data.test.y.shape


def test_it_stops_by_itself():
    module = StochasticModule(LSVM(loss=LabelLoss(), C=1.0, init="central"))
    trainer = train(module, tiny_data(), epochs=200)
    assert module.epochs.converged
    assert trainer.current_epoch < 200
    again = copy.deepcopy(module.history())
    train(module, tiny_data(), epochs=3)  # nothing left to do
    assert module.history() == again


def test_a_row_has_the_columns_of_the_exact_solver():
    data = tiny_data()
    exact = DISC(C=1.0).fit(data.train.candidates, data.train.y)
    module = StochasticModule(DISC(C=1.0))
    train(module, data, epochs=1)
    assert set(exact.history_[0]) - set(module.history()[0]) == {"gap", "w_decrease", "posterior_decrease"}


# ---- the mathematics ---------------------------------------------------------------------------------------------


def samples_of(problem, loss, init="random", known=None):
    """A small double-precision problem with its start, and a learner that has seen it."""
    learner = DISC(loss=loss, C=3.0, J=0.2, beta=0.3, n_classes=problem.n_classes, init=init)
    learner.begin(problem.candidates, problem.y, h=known)
    work = learner._training
    return learner, TrainingSet(problem.candidates, work.y, learner.loss_, learner.n_classes_, work.start, work.known)


def at(problem, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = (problem.n_classes, problem.candidates.n_features)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(problem.candidates.features.dtype) for _ in range(2)]


@pytest.mark.parametrize("loss", LOSSES)
def test_measure_is_the_learners_own_objective(problem, loss):
    learner, samples = samples_of(problem, LOSSES[loss], known=[1, -1, -1, 0])
    w, theta = at(problem)
    learner.model_ = LogLinear(theta)
    learner._refresh()
    work = learner._training
    work.cccp.point = work.hinge.at(w.flatten().double())
    found, measures = BatchObjective(learner, LinearPrediction(w), learner.model_).measure(samples)
    assert found.terms() == pytest.approx(learner._objective().terms())
    assert measures == pytest.approx(work.measures())


@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
def test_batches_of_one_size_average_to_the_whole(problem, theta_bound):
    learner, samples = samples_of(problem, LOSSES["lopsided"])
    learner.theta_bound = theta_bound
    w, theta = at(problem)
    objective = BatchObjective(learner, LinearPrediction(w), LogLinear(theta))
    parts = [objective.value(samples.batch(torch.tensor(index))) for index in ([2, 0], [3, 1])]
    torch.testing.assert_close(torch.stack(parts).mean(), objective.value(samples.batch(torch.arange(4))))


@pytest.mark.parametrize("loss", LOSSES)
def test_with_the_slack_bound_the_gradient_is_that_of_the_objective(loss):
    problem = random_problem()
    learner, samples = samples_of(problem, LOSSES[loss])
    learner.theta_bound = "slack"
    w, theta = (v.double() for v in at(problem))
    candidates = problem.candidates.to(dtype=torch.float64)
    samples.candidates = candidates
    p_w, p_theta = LinearPrediction(w), LogLinear(theta)
    value = BatchObjective(learner, p_w, p_theta).value(samples.batch(torch.arange(4)))
    value.backward()

    def brute(w, theta):  # (11) as it is written, sample by sample
        total, first = 0.5 * (w**2).sum() + 0.5 * learner.J * (theta**2).sum(), 0
        for i, count in enumerate(candidates.counts.tolist()):
            rows = torch.arange(first, first + count)
            x, y = candidates.features[rows], problem.y[i]
            p = torch.softmax(x @ theta[y], 0)
            h = candidates.latent(rows)
            delta = learner.loss_.delta(y, h.unsqueeze(1), y, h.unsqueeze(0)).double()  # (h', h)
            every = [
                x @ w[k] + p @ learner.loss_.delta(y, h.unsqueeze(1), torch.tensor(k), h.unsqueeze(0)).double().expand(count, count)
                for k in range(problem.n_classes)
            ]
            xi = torch.cat(every).max() - (x @ w[y]).max()
            total = total + learner.C / len(candidates) * (xi - learner.beta * p @ delta.expand(count, count) @ p)
            first += count
        return total

    one, two = w.clone().requires_grad_(), theta.clone().requires_grad_()
    brute(one, two).backward()
    torch.testing.assert_close(p_w.w.grad, one.grad, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(p_theta.theta.grad, two.grad, atol=1e-6, rtol=1e-6)


def test_gradients_agree_with_differences(problem):
    learner, samples = samples_of(problem, LOSSES["overlap"])
    samples.candidates = problem.candidates.to(dtype=torch.float64)
    w, theta = (v.double() for v in at(problem))
    objective = BatchObjective(learner, LinearPrediction(w), LogLinear(theta))
    batch = samples.batch(torch.tensor([0, 2, 3]))

    def of_theta(t):
        problem = objective._problem(batch, objective.p_w.scores(batch.candidates).detach())
        return problem.value(torch.func.functional_call(objective.p_theta, {"theta": t}, (batch.candidates, batch.y)).p)

    def of_w(v, warm):
        scores = LinearPrediction(v).joint.scores(batch.candidates, v.flatten())
        return objective.hinge(batch, scores, objective.posterior(batch, scores), warm)

    assert torch.autograd.gradcheck(of_theta, theta.requires_grad_())
    for warm in (True, False):
        assert torch.autograd.gradcheck(partial(of_w, warm=warm), w.clone().requires_grad_())


def test_while_warm_the_truth_is_the_start_and_theta_waits(problem):
    learner, samples = samples_of(problem, LOSSES["zero_one"])
    w, theta = at(problem)
    batch = samples.batch(torch.arange(4))
    warm, fixed = (BatchObjective(learner, LinearPrediction(w), LogLinear(theta)) for _ in range(2))
    warm.value(batch, warm=True).backward()
    assert not warm.p_theta.theta.grad.any()
    scores = fixed.p_w.scores(batch.candidates)
    p = fixed.posterior(batch, scores)
    as_known = replace(batch, known=batch.start.nonzero().flatten())
    fixed.hinge(as_known, scores, p, warm=False).backward()
    torch.testing.assert_close(warm.p_w.w.grad, fixed.p_w.w.grad)


def test_a_loss_that_looks_rows_up_finds_them_in_a_batch(problem):
    place = torch.rand(problem.candidates.n_candidates, generator=torch.Generator().manual_seed(3))

    class ByRow(Loss):
        def delta(self, y1, h1, y2, h2):
            return (place[h1.row] - place[h2.row]).abs() + (y1 != y2)

    samples = TrainingSet(problem.candidates, problem.y, ByRow(), 3, problem.p, torch.full_like(problem.y, -1))
    whole, part = samples.batch(torch.arange(4)), samples.batch(torch.tensor([2, 0]))
    expected = whole.bound.diversity(problem.p)[[2, 0]]
    torch.testing.assert_close(part.bound.diversity(part.start), expected)


# ---- networks ----------------------------------------------------------------------------------------------------


def test_networks_for_both_lower_the_objective():
    data, d = tiny_data(), HOG().n_features
    learner = DISC(loss=OverlapLoss(), C=10.0, J=0.01, init="central")
    given = network(d)
    before = copy.deepcopy(given.state_dict())
    slow = partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.95)
    module = StochasticModule(
        learner, prediction=given, conditional=network(d, seed=1), optimizer_w=partial(torch.optim.Adam, lr=1e-2), scheduler=slow
    )
    train(module, data, epochs=20)
    assert module.history()[-1]["objective"] < 0.8 * module.epochs.origin
    assert isinstance(module.prediction(data.test.candidates), NeuralPrediction)
    p = module.posterior(data.test.candidates, data.test.y)
    assert float(p.sum()) == pytest.approx(len(data.test), rel=1e-5)
    assert all(torch.equal(given.state_dict()[k], v) for k, v in before.items())  # a copy is trained


def test_posterior_of_lsvm_is_a_delta():
    data, module = tiny_data(), StochasticModule(LSVM(C=1.0))
    train(module, data, epochs=2)
    p = module.posterior(data.test.candidates, data.test.y)
    assert sorted(p.unique().tolist()) == [0.0, 1.0]


# ---- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StochasticModule(ILSVM()), "ILSVM alternates whole trainings, so use solver=exact"),
        (lambda: StochasticModule(LSVM(n_init=3)), "n_init is 3"),
        (lambda: StochasticModule(LSVM(), conditional=nn.Linear(2, 2)), "learner is LSVM, which has none"),
        (lambda: StochasticModule(DISC(), patience=0), "patience at least 1, but they are 1 and 0"),
        (lambda: StochasticModule(DISC(), average=-1.0), "average must be at least 0, or None, but it is -1.0"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_network_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="prediction must score the 3 classes of the data, but it scores 5"):
        train(StochasticModule(LSVM(), prediction=network(HOG().n_features, classes=5)), tiny_data())


def test_an_unfinished_run_says_so():
    module = StochasticModule(LSVM(C=1.0))
    train(module, tiny_data(), epochs=2)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 epochs"):
        module.epochs.warn_if_unfinished()


# ---- checkpoints -------------------------------------------------------------------------------------------------


def plain(value):
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(plain(v) for v in value)
    return value is None or isinstance(value, torch.Tensor | str | bool | int | float)


def make_module(kind):
    if kind == "networks":
        d = HOG().n_features
        return StochasticModule(DISC(C=3.0, J=0.01, init="central"), prediction=network(d), conditional=network(d, seed=1))
    learner = LSVM(loss=OverlapLoss(), C=3.0) if kind == "LSVM" else DISC(loss=OverlapLoss(), C=3.0, J=0.001, init="central")
    return StochasticModule(learner)


@pytest.mark.parametrize("kind", ["DISC", "LSVM", "networks"])
@pytest.mark.parametrize("monitor", [None, "val/loss"])
def test_a_resumed_run_ends_in_the_numbers_of_an_unbroken_one(kind, monitor, tmp_path):
    data = tiny_data()
    whole, broken, resumed = (make_module(kind) for _ in range(3))
    train(whole, data, epochs=5)
    keep = pl.callbacks.ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, monitor=monitor)
    train(broken, data, epochs=3, callbacks=[keep])
    path = tmp_path / "epoch=2.ckpt"
    torch.rand(7)  # whatever happened in between
    train(resumed, data, epochs=5, ckpt_path=path)
    columns = [[{k: v for k, v in row.items() if k != "seconds"} for row in m.history()] for m in (whole, resumed)]
    assert len(columns[0]) == 5
    for one, two in zip(*columns, strict=True):
        assert two == pytest.approx(one, rel=1e-6, abs=1e-6)
    for one, two in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        torch.testing.assert_close(two, one, rtol=1e-6, atol=1e-6)


def test_a_checkpoint_is_tensors_and_plain_data_and_serves_to_predict(tmp_path):
    data, module = tiny_data(), make_module("DISC")
    trainer = train(module, data, epochs=2)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    content = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert plain(content[CHECKPOINT_KEY]["learned"])
    candidates, y = data.test.candidates, data.test.y
    alone = make_module("DISC")
    alone.load_learned(content[CHECKPOINT_KEY]["learned"])
    learner = DISC(loss=OverlapLoss(), C=3.0, J=0.001)
    learner.load_state_dict(content[CHECKPOINT_KEY]["learned"])
    for other in (alone.prediction(candidates), learner):
        assert all(
            torch.equal(a, b) for a, b in zip(other.predict(candidates), module.prediction(candidates).predict(candidates), strict=True)
        )
    torch.testing.assert_close(learner.predict_latent_proba(candidates, y), module.posterior(candidates, y))


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    train(make_module("LSVM"), tiny_data(), epochs=1).save_checkpoint(tmp_path / "a.ckpt")
    other = tiny_data(per_class=4, digits=(0, 2))
    with pytest.raises(ValueError, match="n_classes = 3, but the data have 2"):
        train(make_module("LSVM"), other, ckpt_path=tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match="the state is that of LSVM, but this is DISC"):
        train(make_module("DISC"), tiny_data(), ckpt_path=tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match="before it predicts"):
        make_module("LSVM").prediction(tiny_data().train.candidates)
