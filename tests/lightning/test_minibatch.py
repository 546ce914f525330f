"""Learning by mini-batches against the exact solver and against its own interruption."""

import copy
from dataclasses import replace
from functools import partial

import pytest
import pytorch_lightning as pl
import torch
from three_digits import network, tiny_data, train
from torch import nn

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, LabelLoss, OverlapLoss, SoftDISC, Supervised, ZeroOneLoss
from lvmdc.distributions import NeuralPrediction
from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning import AlternatingModule, DualModule, SoftModule, SparseModule
from lvmdc.lightning.module import CHECKPOINT_KEY

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")


# ---- the same as the exact solver --------------------------------------------------------------------------------


LEARNERS = {
    "LSVM, label loss": LSVM(loss=LabelLoss(), C=1.0, init="central"),
    "LSVM, label loss, large C": LSVM(loss=LabelLoss(), C=10.0, init="central"),
    "DISC, 0/1 loss": DISC(loss=ZeroOneLoss(), C=1.0, init="central"),
    "DISC, overlap loss": DISC(loss=OverlapLoss(), C=1.0, init="central"),
    "Supervised, overlap loss": Supervised(loss=OverlapLoss(), C=3.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, DualModule) for name in LEARNERS), ("DISC, 0/1 loss", AlternatingModule), ("DISC, overlap loss", AlternatingModule)],
)
def test_objective_is_within_two_percent_of_the_exact_solver(name, kind):
    data = tiny_data()
    exact, learner = copy.deepcopy(LEARNERS[name]), copy.deepcopy(LEARNERS[name])
    exact.fit(data.train.candidates, data.train.y, h=data.train.h if isinstance(exact, Supervised) else None)
    module = kind(learner)
    train(module, data, epochs=80)
    assert module.history()[-1]["objective"] <= 1.02 * exact.objective_
    if isinstance(exact, Supervised):  # convex: no other optimum to end in
        assert module.history()[-1]["objective"] >= 0.995 * exact.objective_
    assert learner.objective_ == module.history()[-1]["objective"]
    y_hat, h_hat = learner.predict(data.test.candidates)
    assert y_hat.shape == h_hat.shape == data.test.y.shape


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DualModule, AlternatingModule])
def test_with_a_prior_the_objective_is_within_two_percent_of_the_exact_solver(kind):
    data = tiny_data()
    c = data.train.candidates
    prior = 2 * torch.randn(c.n_candidates, 3, generator=torch.Generator().manual_seed(0))
    data.train = replace(data.train, candidates=c.with_prior(prior))
    settings = {"loss": OverlapLoss(), "C": 1.0, "init": "prior"}
    exact = DISC(**settings).fit(c, data.train.y, prior=prior)
    module = kind(DISC(**settings))
    train(module, data, epochs=80)
    assert module.history()[-1]["objective"] <= 1.02 * exact.objective_
    assert module.history()[-1]["entropy"] < 0.9 * float(c.counts.double().log().mean())  # that of the prior at most, near enough


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "loss"), [(LSVM, OverlapLoss()), (LSVM, ZeroOneLoss()), (DISC, OverlapLoss())])
def test_where_every_convex_problem_is_solved_both_solvers_go_the_same_way(kind, loss):
    """(14) has one solution: the same h* follow, and the same θ."""
    data, settings = tiny_data(), {"loss": loss, "C": 10.0, "init": "central", "cccp": "exact"}
    exact, module = kind(**settings).fit(data.train.candidates, data.train.y), DualModule(kind(**settings))
    train(module, data, epochs=200)
    assert module.convergence.converged
    assert module.history()[-1]["objective"] == pytest.approx(exact.objective_, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [OverlapLoss(), ZeroOneLoss()])
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_all_but_a_fiftieth_is_gained_of_what_can_be(loss, C):
    """From w = 0, where the problem is convex: objectives far from zero lie close to each other whatever was learned."""
    data = tiny_data()
    exact = Supervised(loss=loss, C=C, tol=1e-5).fit(data.train.candidates, data.train.y, h=data.train.h)
    module = DualModule(Supervised(loss=loss, C=C))
    train(module, data, epochs=200)
    assert module.convergence.converged
    gained, possible = (module.convergence.origin - value for value in (module.history()[-1]["objective"], exact.objective_))
    assert 0.98 * possible <= gained <= 1.001 * possible


def test_it_stops_by_itself_and_a_finished_run_stays_as_it_is():
    module = DualModule(LSVM(loss=LabelLoss(), C=1.0, init="central"))
    trainer = train(module, tiny_data(), epochs=200)
    assert module.convergence.converged
    assert trainer.current_epoch < 200
    again = copy.deepcopy(module.history())
    train(module, tiny_data(), epochs=3)  # nothing left to do
    assert module.history() == again


def test_a_row_has_the_columns_of_the_exact_solver():
    data = tiny_data()
    exact = DISC(C=1.0).fit(data.train.candidates, data.train.y)
    for kind, more in ((AlternatingModule, {"gap"}), (DualModule, set())):
        module = kind(DISC(C=1.0))
        train(module, data, epochs=1)
        assert set(exact.history_[0]) - set(module.history()[0]) == {"w_decrease", "posterior_decrease", *more}


# ---- networks ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_networks_for_both_lower_the_objective():
    data = tiny_data()
    learner = DISC(loss=OverlapLoss(), C=10.0, J=0.01, init="central")
    given = network()
    before = copy.deepcopy(given.state_dict())
    slow = partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.95)
    module = AlternatingModule(
        learner, prediction=given, conditional=network(seed=1), optimizer_w=partial(torch.optim.Adam, lr=1e-2), scheduler=slow
    )
    train(module, data, epochs=20)
    assert module.history()[-1]["objective"] < 0.8 * module.convergence.origin
    assert isinstance(module.prediction(data.test.candidates), NeuralPrediction)
    p = module.posterior(data.test.candidates, data.test.y)
    assert float(p.sum()) == pytest.approx(len(data.test), rel=1e-5)
    assert all(torch.equal(given.state_dict()[k], v) for k, v in before.items())  # a copy is trained


def test_posterior_of_lsvm_is_a_delta():
    data, module = tiny_data(), AlternatingModule(LSVM(C=1.0))
    train(module, data, epochs=2)
    p = module.posterior(data.test.candidates, data.test.y)
    assert sorted(p.unique().tolist()) == [0.0, 1.0]


# ---- validation --------------------------------------------------------------------------------------------------

SLOWER = partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DualModule(ILSVM()), "ILSVM alternates whole trainings, so use module=exact"),
        (lambda: AlternatingModule(EM()), "EM alternates whole trainings, so use module=exact"),
        (lambda: AlternatingModule(M3E()), "M3E alternates whole trainings, so use module=exact"),
        (lambda: DualModule(LSVM(n_init=3)), "n_init is 3"),
        (lambda: AlternatingModule(LSVM(), conditional=nn.Linear(2, 2)), "learner is LSVM, which has none"),
        (lambda: AlternatingModule(DISC(), patience=0), "patience at least 1, but they are 1 and 0"),
        (lambda: AlternatingModule(SoftDISC()), "that of SoftDISC is a softmax; use module=soft"),
        (lambda: DualModule(SoftDISC()), "that of SoftDISC is a softmax; use module=soft"),
        (lambda: SparseModule(SoftDISC()), "that of SoftDISC is a softmax; use module=soft"),
        (lambda: SoftModule(DISC()), "SoftModule is for SoftDISC, but the learner is DISC; use module=alternating"),
        (lambda: DualModule(LSVM(cccp="self_paced")), "but it is 'self_paced'; use module=exact"),
        (lambda: DualModule(DISC(conditional=nn.Linear(2, 2))), "conditional is a network; use module=alternating"),
        (lambda: SparseModule(LSVM(), scheduler=SLOWER), "has no rate"),
        (lambda: DualModule(DISC(anneal=2.0)), "no outer iterations to cool β in, .* but anneal is 2"),
        (lambda: AlternatingModule(DISC(theta_solver="ssd")), "nor Algorithm 2, .* theta_solver 'ssd'"),
        (lambda: AlternatingModule(DISC(), average=-1.0), "average must be at least 0, or None, but it is -1.0"),
    ],
)
def test_unsupported_settings_are_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_network_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="prediction must score the 3 classes of the data, but it scores 5"):
        train(AlternatingModule(LSVM(), prediction=network(classes=5)), tiny_data())


@pytest.mark.parametrize("kind", [AlternatingModule, DualModule])
def test_an_unfinished_run_warns(kind):
    module = kind(LSVM(C=1.0))
    train(module, tiny_data(), epochs=2)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 epochs"):
        module.convergence.warn_if_unfinished()


# ---- checkpoints -------------------------------------------------------------------------------------------------


def plain(value):
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(plain(v) for v in value)
    return value is None or isinstance(value, torch.Tensor | str | bool | int | float)


def make_module(kind):
    if kind == "networks":
        return AlternatingModule(DISC(C=3.0, J=0.01, init="central"), prediction=network(), conditional=network(seed=1))
    if kind == "sparse":
        return SparseModule(DISC(loss=OverlapLoss(), C=100.0, J=0.1, init="central"), norm="group")
    if kind == "subgradients":
        return AlternatingModule(DISC(loss=OverlapLoss(), C=3.0, J=0.001), optimizer_w=partial(torch.optim.SGD, lr=1e-2))
    if kind == "LSVM":
        return DualModule(LSVM(loss=OverlapLoss(), C=3.0))
    # Solved roughly, so that θ moves soon.
    return DualModule(DISC(loss=OverlapLoss(), C=1.0, J=0.001, tol=0.1, init="central", cccp="inexact"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "monitor"),
    [("DISC", None), ("DISC", "val/loss"), ("LSVM", None), ("subgradients", "val/loss"), ("networks", None), ("sparse", "val/loss")],
)
def test_a_resumed_run_ends_in_the_numbers_of_an_unbroken_one(kind, monitor, tmp_path):
    epochs, before = {"DISC": (22, 21)}.get(kind, (5, 3))  # w comes first there
    data = tiny_data(batch_size=8 if before == 3 else 4)
    whole, broken, resumed = (make_module(kind) for _ in range(3))
    train(whole, data, epochs=epochs)
    keep = pl.callbacks.ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, monitor=monitor)
    train(broken, data, epochs=before, callbacks=[keep])
    path = tmp_path / f"epoch={before - 1}.ckpt"
    torch.rand(7)  # whatever happened in between
    train(resumed, data, epochs=epochs, ckpt_path=path)
    columns = [[{k: v for k, v in row.items() if k != "seconds"} for row in m.history()] for m in (whole, resumed)]
    assert len(columns[0]) == epochs
    assert kind == "LSVM" or columns[0][before - 1]["theta_norm"] != columns[0][0]["theta_norm"]
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


# ---- a prediction that is a distribution -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_soft_prediction_is_learned_as_by_l_bfgs():
    data = tiny_data()
    settings = {"loss": OverlapLoss(), "C": 10.0, "J": 0.001, "init": "central"}
    exact = SoftDISC(**settings).fit(data.train.candidates, data.train.y)
    module = SoftModule(SoftDISC(**settings))
    train(module, data, epochs=60)
    assert module.history()[-1]["objective"] <= 1.15 * exact.objective_  # not convex: there is more than one place to end in
    assert module.history()[-1]["objective"] < 0.85 * module.convergence.origin
    assert module.learner.objective_ == module.history()[-1]["objective"]


@pytest.mark.parametrize(("written", "read"), [(DualModule, AlternatingModule), (AlternatingModule, DualModule)])
def test_a_checkpoint_of_another_module_is_refused(written, read, tmp_path):
    one, other = (kind(LSVM(loss=OverlapLoss(), C=3.0)) for kind in (written, read))
    train(one, tiny_data(), epochs=1).save_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=f"written by {written.__name__}, but this is {read.__name__}; see module="):
        train(other, tiny_data(), epochs=2, ckpt_path=tmp_path / "a.ckpt")
