"""The module of the paper: its gradients, the exact objective, and its refusals."""

from functools import partial

import pytest
import torch
from test_stochastic import network, tiny_data, train

from lvmdc import DISC, LSVM, OverlapLoss, SoftDISC, Supervised, ZeroOneLoss
from lvmdc.lightning import AlternatingModule
from lvmdc.lightning.batches import batch_objective
from lvmdc.vision.features.hog import HOG

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")
LEARNERS = {
    "LSVM": lambda: LSVM(loss=OverlapLoss(), C=3.0),
    "Supervised": lambda: Supervised(loss=OverlapLoss(), C=3.0),
    "DISC": lambda: DISC(loss=OverlapLoss(), C=3.0, J=0.001),
    "DISC, slack": lambda: DISC(loss=ZeroOneLoss(), C=3.0, J=0.001, theta_bound="slack"),
    "DISC, uniform": lambda: DISC(loss=OverlapLoss(), C=3.0, conditional="uniform"),
}


class Compared(AlternatingModule):
    """Compares what every step lowers with the objective of the mini-batch."""

    checked = 0

    def training_step(self, batch, batch_idx):
        pair = self._trained()
        self._expected = batch_objective(self.learner, pair.p_w, pair.p_theta).value(self.samples.batch(batch), self._warm)
        super().training_step(batch, batch_idx)

    def manual_backward(self, loss):
        theta = [] if self.pair.p_theta is None or self._warm else list(self.pair.p_theta.parameters())
        for parameter in [*self.pair.p_w.parameters(), *theta]:
            one, two = (torch.autograd.grad(value, parameter, retain_graph=True)[0] for value in (loss, self._expected))
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
        self.checked += 1
        super().manual_backward(loss)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_step_has_the_gradients_of_the_objective_of_its_batch(name):
    module = Compared(LEARNERS[name]())
    train(module, tiny_data(), epochs=2)  # h* is held in the first
    assert module.checked >= 4


@pytest.mark.parametrize("C", [1.0, 10.0])
@pytest.mark.parametrize("kind", [LSVM, partial(DISC, J=0.001)], ids=["LSVM", "DISC"])
def test_the_default_optimizers_reach_the_exact_objective_within_two_percent(kind, C):
    data = tiny_data()
    exact = kind(loss=OverlapLoss(), C=C).fit(data.train.candidates, data.train.y)
    module = AlternatingModule(kind(loss=OverlapLoss(), C=C))
    train(module, data, epochs=100)
    assert module.history()[-1]["objective"] <= 1.02 * exact.objective_


def test_networks_and_any_optimizer_learn():
    d = HOG().n_features
    own = {"optimizer_w": partial(torch.optim.RMSprop, lr=1e-3), "optimizer_theta": partial(torch.optim.Adagrad, lr=1e-2)}
    module = AlternatingModule(DISC(loss=OverlapLoss(), C=10.0), prediction=network(d), conditional=network(d, seed=1), **own)
    train(module, tiny_data(), epochs=8)
    assert module.history()[-1]["objective"] < module.epochs.origin


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AlternatingModule(SoftDISC()), "trains DISC, LSVM and Supervised, but the learner is SoftDISC"),
        (lambda: AlternatingModule(LSVM(), norm="l1"), "norm= is an option of StochasticModule"),
    ],
)
def test_what_it_does_not_do_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
