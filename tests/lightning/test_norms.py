"""Sparse norms of w in the stochastic solver."""

import warnings
from functools import partial

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from scipy.optimize import minimize
from test_stochastic import tiny_data
from torch import nn

from lvmdc import DISC, LSVM, LabelLoss
from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning.sparse import norm_value, prox
from lvmdc.lightning.stochastic import StochasticModule

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")


@pytest.mark.parametrize("norm", ["l2", "l1", "group"])
@pytest.mark.parametrize("step", [0.1, 1.0, 3.0])
def test_the_proximal_step_is_the_minimum_of_its_definition(norm, step):
    w = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3)))

    def definition(v):
        v = torch.from_numpy(v.reshape(w.shape))
        return 0.5 * float((v - w).square().sum()) + step * float(norm_value(norm, v))

    # Neither norm is smooth: a search without derivatives, from several places.
    starts = [w.numpy().ravel(), np.zeros(6), 0.5 * w.numpy().ravel()]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 40_000, "adaptive": True}
    found = min((minimize(definition, s, method="Nelder-Mead", options=options) for s in starts), key=lambda r: r.fun)
    mine = prox(norm, w, step)
    assert definition(mine.numpy()) <= found.fun + 1e-9
    np.testing.assert_allclose(mine.numpy().ravel(), found.x, atol=2e-3)


def run(module, epochs):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, deterministic=True, **quiet)
    data = tiny_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trainer.fit(module, datamodule=data)
    return module, data


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "group"])
def test_the_objective_falls_and_exact_zeros_appear(norm):
    module, data = run(StochasticModule(LSVM(loss=LabelLoss(), C=100.0, init="central"), norm=norm), 100)
    last, w = module.history()[-1], module.learned()["coef"]
    assert last["objective"] < 0.7 * module.epochs.origin
    assert last["w_norm"] == pytest.approx(float(norm_value(norm, w)))
    assert last["objective"] == pytest.approx(last["w_norm"] + 100.0 * last["slack"])
    if norm == "group":
        assert torch.equal((w == 0).any(dim=0), (w == 0).all(dim=0))  # for all classes or for none
    assert 0.1 < float((w == 0).double().mean()) < 1.0
    torch.testing.assert_close(module.learner.coef_, w)
    assert module.learner.score(data.train.candidates, data.train.y) > 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StochasticModule(DISC(), norm="l3"), "norm must be one of l2, l1, group, but it is 'l3'"),
        (lambda: StochasticModule(DISC(), norm="l1", prediction=nn.Linear(2, 3)), "norm='l1' is for a linear P_w"),
        (lambda: StochasticModule(LSVM(), norm="l1", optimizer_w=partial(torch.optim.Adam, lr=0.1)), "optimizer_w asks for another"),
        (lambda: StochasticModule(LSVM(), norm="group", scheduler=torch.optim.lr_scheduler.ConstantLR), "no rate, but scheduler would"),
    ],
)
def test_what_cannot_be_done_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
