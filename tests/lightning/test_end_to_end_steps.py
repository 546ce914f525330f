"""Which steps are taken while a network learns: in which order, at which rates, from which h*, for how many epochs."""

import warnings
from dataclasses import replace
from functools import partial

import pytest
import pytorch_lightning as pl
import torch

from lvmdc import DISC, LSVM, OverlapLoss
from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning import EndToEndModule, LatentDataModule
from lvmdc.priors import CentredBoxPrior
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.features.with_prior import described_with_prior
from lvmdc.vision.proposals.base import WindowGrid

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*", "ignore:.*in eval mode at the start.*"
)
SETTINGS = {"loss": OverlapLoss(), "C": 3.0, "init": "central", "tol": 0.05}


class Rates(pl.Callback):
    """Whether w, and the network, moved with each batch, and the network's rate while it was taken."""

    def __init__(self):
        self.moved, self.rates = [], []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self._before = [torch.cat([p.detach().flatten().clone() for p in part]) for part in self._parts(module)]
        self._rate = trainer.optimizers[-1].param_groups[0]["lr"]

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        after = [torch.cat([p.detach().flatten() for p in part]) for part in self._parts(module)]
        moved = tuple(not torch.equal(a, b) for a, b in zip(self._before, after, strict=True))
        self.moved.append(moved)
        self.rates += [self._rate] if moved[1] else []

    @staticmethod
    def _parts(module):
        return list(module.p_w.parameters()), list(module.network.parameters())


class StopAfter(pl.Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def learn(learner=None, epochs=4, batch_size=4, callbacks=(), trainer=None, **settings):
    """The module, what moved, and the warnings that it did not converge."""
    network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64)
    module = EndToEndModule(learner or LSVM(**SETTINGS), network=network, **{"finish": "steps"} | settings)
    data = LatentDataModule(cluttered_digits(per_class=5, digits=(0, 4)), WindowGrid(stride=16), Learned(), batch_size=batch_size)
    data.progress, watch = False, Rates()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    made = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[watch, *callbacks], num_sanity_val_steps=0, **quiet, **(trainer or {})
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.fit(module, datamodule=data)
    return module, watch, [str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)]


class Preferring(LatentDataModule):
    """The same data, where the last window of each image is the most probable one before learning."""

    def setup(self, stage=None):
        super().setup(stage)
        c = self.train.candidates
        last = c.features.new_zeros(c.n_candidates).index_fill(0, c.offsets + c.counts - 1, 1.0)
        self.train = replace(self.train, candidates=c.with_prior(last, strength=1e4))


def test_the_prior_stays_when_the_network_moves():
    network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64)
    learner = DISC(**SETTINGS | {"init": "prior"})
    module = EndToEndModule(learner, network=network, finish="steps")
    data = Preferring(cluttered_digits(per_class=5, digits=(0, 4)), WindowGrid(stride=16), Learned(), batch_size=4)
    data.progress, seen = False, []
    describe = module._describe
    module._describe = lambda index: seen.append(describe(index)) or seen[-1]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.Trainer(max_epochs=4, accelerator="cpu", num_sanity_val_steps=0, **quiet).fit(module, datamodule=data)
    assert seen
    assert all(bool((c.prior[c.offsets + c.counts - 1] == 1e4).all()) and float(c.prior.sum()) == 1e4 * len(c) for c in seen)
    assert module.history()[-1]["entropy"] == pytest.approx(0, abs=1e-6)  # P_θ is a delta, whatever θ is


@pytest.mark.parametrize("frozen_epochs", [0, 1])
def test_the_network_waits_for_the_frozen_epochs_and_then_steps_with_w(frozen_epochs):
    _, watch, _ = learn(batch_size=2, frozen_epochs=frozen_epochs)
    waiting = 3 * frozen_epochs
    assert watch.moved == [(True, False)] * waiting + [(True, True)] * (12 - waiting)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"frozen_epochs": 1},
        {"begin": "steps", "warmup_epochs": 2},
        {"begin": "steps", "warmup_epochs": 1, "frozen_epochs": 2},
    ],
)
def test_the_networks_rate_falls_evenly_to_zero_over_the_steps_that_it_takes(settings):
    _, watch, _ = learn(batch_size=2, optimizer_backbone=partial(torch.optim.AdamW, lr=1e-4), **settings)
    steps = len(watch.rates)
    assert steps >= 3
    assert watch.rates == pytest.approx([1e-4 * (1 - t / steps) for t in range(steps)])


def test_with_hold_all_the_network_alone_moves_as_if_w_took_steps_of_rate_zero():
    still = partial(torch.optim.SGD, lr=0.0)
    for learner in (DISC(J=0.01, **SETTINGS), LSVM(**SETTINGS)):
        found = [learn(learner, epochs=2, **one) for one in ({"hold": "all"}, {"hold": True, "optimizer_w": still})]
        assert set(found[0][1].moved) == {(False, True)}
        one, two = (module.network.state_dict() for module, _, _ in found)
        assert all(torch.equal(one[name], two[name]) for name in one)
        assert found[0][0].history()[-1]["objective"] == found[1][0].history()[-1]["objective"]


def test_a_run_of_all_its_epochs_has_converged_without_a_warning():
    module, _, warned = learn(epochs=2)
    assert (module.convergence.converged, module.learner.converged_, warned) == (True, True, [])


@pytest.mark.parametrize(("stop", "done"), [({"callbacks": [StopAfter(1)]}, 1), ({"trainer": {"max_steps": 2}}, 0)])
def test_a_run_that_is_stopped_early_says_so(stop, done):
    module, _, warned = learn(epochs=10, batch_size=2, **stop)
    assert len(module.history()) == done
    assert not module.convergence.converged
    assert len(warned) == 1
    assert warned[0].startswith(f"learning stopped after {done} of 10 epochs, before rates had come to zero and w and θ were settled")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hold": "w"}, "hold must be false, true or 'all', but it is 'w'"),
        ({"hold": "all", "begin": "steps"}, r"hold keeps h\* where the exact solver left it, so that begin must be 'exact'"),
        ({"hold": "all", "optimizer_w": torch.optim.Adam}, "hold='all' keeps w where the exact solver left it, but optimizer_w would move"),
        ({"hold": True, "optimizer_theta": torch.optim.Adam}, "hold=True keeps theta where the exact solver left it, but optimizer_theta"),
        ({"hold": "all", "frozen_epochs": 2}, "frozen_epochs must be 0, but it is 2"),
    ],
)
def test_optimizers_of_what_is_held_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        EndToEndModule(DISC(J=0.01, **SETTINGS), network=RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64), **settings)


def test_columns_of_a_prior_are_features_beside_those_of_the_network():
    network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, normalise=0.0, contrast="ring")
    prior = CentredBoxPrior()
    images = cluttered_digits(per_class=5, digits=(0, 4))
    data = LatentDataModule(images, WindowGrid(stride=16), Learned(), batch_size=4, prior=prior, prior_columns=2.0, progress=False)
    module = EndToEndModule(LSVM(**SETTINGS), network=network, finish="steps")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.Trainer(max_epochs=2, accelerator="cpu", num_sanity_val_steps=0, **quiet).fit(module, datamodule=data)
    found = module.described(data.test).candidates
    assert found.n_features == network.n_features + 1
    torch.testing.assert_close(found.features[:, -1].cpu(), 2 * data.test.candidates.prior / prior.strength)
    image, name = data.test.items.image(0), data.test.items.names[0]
    alone = described_with_prior(image, name, WindowGrid(stride=16).boxes(image, name), module.describer(Learned()), prior, 2.0)
    torch.testing.assert_close(alone.features, found.subset([0]).features.cpu(), rtol=1e-4, atol=1e-4)
    module.prediction(alone).predict(alone)
