"""Learning end to end: the frozen case, what is held, what is learned, and interruption."""

import copy
from functools import partial

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from PIL import Image
from two_digits import SETTINGS, data_of, small, train

from lvmdc import DISC, LSVM
from lvmdc.distributions import LinearPrediction
from lvmdc.inference import best_of_class
from lvmdc.lightning import AlternatingModule, EndToEndModule
from lvmdc.lightning.end_to_end import check_precision
from lvmdc.lightning.region_features import Augmentation, RegionFeatures
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import CNN, Learned, RegionNetwork

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*", "ignore:.*in eval mode at the start.*"
)


def test_a_step_moves_the_network_only_where_it_may():
    data = data_of()
    for frozen, moved in ((2, False), (0, True)):
        module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), frozen_epochs=frozen)
        before = copy.deepcopy(module.network.state_dict())
        train(module, data, epochs=1)
        assert any(not torch.equal(v, before[k]) for k, v in module.network.state_dict().items() if k.startswith("trunk")) == moved


# ---- the frozen case ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_frozen_network_is_training_from_extracted_features():
    data, own = data_of(), {"optimizer_w": partial(torch.optim.SGD, lr=1e-2)}  # the same subgradient steps for both
    settings = {"frozen_epochs": 99, "begin": "steps", "finish": "steps", "augmentation": Augmentation(0, (1, 1), 0)}
    module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), **settings, **own)
    train(module, data, epochs=25)
    extracted = copy.copy(data)
    extracted.train, extracted.features = module.described(data.train), CNN("small_cnn", "roi", weights=None, stride=8)
    plain = AlternatingModule(DISC(J=0.01, **SETTINGS), **own)
    train(plain, extracted, epochs=25)
    assert module.history()[-1]["objective"] == pytest.approx(plain.history()[-1]["objective"], rel=0.02)


def test_the_exact_finish_is_the_learners_own_fit_on_the_learned_features():
    data = data_of()
    module = EndToEndModule(LSVM(**SETTINGS), network=small(), optimizer_backbone=partial(torch.optim.AdamW, lr=1e-3))
    train(module, data, epochs=2)
    seen = module.described(data.train)
    p_w = module.prediction(seen.candidates)
    fitted = LSVM(**SETTINGS | {"init": "given"}).fit(seen.candidates, data.train.y, h_init=h_star(seen.candidates, p_w, data.train.y))
    assert module.history()[-1]["objective"] == pytest.approx(fitted.objective_, rel=0.05)  # CCCP goes on a little


@pytest.mark.parametrize("learner", [DISC(J=0.01, **SETTINGS), LSVM(**SETTINGS)])
def test_h_star_and_theta_stay_when_held_while_w_and_the_network_learn(learner):
    data = data_of()
    network = small()
    first = RegionFeatures(network).describe((data.setup(), data.train)[1], calibrate=True)
    exact = copy.deepcopy(learner).fit(first, data.train.y)
    h = first.rows(h_star(first, LinearPrediction(exact.coef_), data.train.y))
    module = EndToEndModule(
        learner, network=network, hold=True, finish="steps", optimizer_backbone=partial(torch.optim.AdamW, lr=1e-3), average=None
    )
    seen, imputed = [], module.h_star
    module.h_star = lambda samples, scores: seen.append((samples, imputed(samples, scores))) or seen[-1][1]
    train(module, data, epochs=2)
    assert torch.equal(module.samples.start.nonzero().flatten().cpu(), h.sort().values)
    assert seen
    for batch, held in seen:  # which is no longer the best of the learned w everywhere
        assert torch.equal(batch.rows[held.nonzero().flatten()], batch.rows[batch.start.nonzero().flatten()])
        assert int(held.sum()) == len(batch.y)
    if isinstance(learner, DISC):
        torch.testing.assert_close(module.p_theta.theta.detach(), exact.model_.theta.detach().to(module.p_theta.theta))
    assert not torch.allclose(module.samples.candidates.features.cpu(), first.features, atol=1e-2)


def h_star(candidates, p_w, y):
    return candidates.index(best_of_class(candidates, p_w.scores(candidates), y))


@pytest.mark.slow
def test_learning_the_network_lowers_the_objective_below_the_frozen_one():
    data = data_of()
    module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), optimizer_backbone=partial(torch.optim.AdamW, lr=2e-4))
    train(module, data, epochs=12)
    frozen = DISC(J=0.01, **SETTINGS).fit(Frozen(data).candidates, data.train.y)
    assert module.history()[-1]["objective"] < 0.9 * frozen.objective_


class Frozen:
    """The training images by the network before it learned."""

    def __init__(self, data):
        regions = RegionFeatures(small())
        self.candidates = regions.describe(data.train, calibrate=True)


@pytest.mark.parametrize("settings", [{"frozen_epochs": 1}, {"clip": None}, {"begin": "steps", "finish": "steps"}])
def test_every_way_of_stepping_runs(settings):
    module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(theta_grid=2), augmentation=Augmentation(), **settings)
    train(module, data_of(), epochs=2)
    assert len(module.history()) == 2
    assert all(np.isfinite(row["objective"]) for row in module.history())


def test_half_precision_where_the_trainer_says_so():
    module = EndToEndModule(LSVM(**SETTINGS), network=small())
    train(module, data_of(), epochs=1, precision="bf16-mixed")
    assert module.samples.candidates.features.dtype == torch.float32
    with pytest.raises(ValueError, match="precision must be bf16-mixed, 32-true or 64-true"):
        check_precision("16-mixed")


@pytest.mark.slow
@pytest.mark.parametrize(("backbone", "weights"), [("efficientnet_lite0", "default"), ("mobilenet_v3_small", None)])
def test_networks_for_photographs_learn(backbone, weights):
    data = data_of(cluttered_digits(per_class=4, digits=(0, 4)))
    network = RegionNetwork(backbone, weights=weights, longer_side=64, checkpointing=True)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    module = EndToEndModule(LSVM(**SETTINGS), network=network, begin="steps", finish="steps")  # an exact w may leave it no gradient
    train(module, data, epochs=2)
    moved = [name for name, p in network.named_parameters() if not torch.equal(p, before[name])]
    assert len(moved) > 0.9 * len(before)
    assert float(module.samples.candidates.features.norm(dim=1).square().mean().sqrt()) == pytest.approx(8, rel=1e-3)


def test_one_image_is_described_as_in_its_set():
    data = data_of()
    data.setup()
    regions = RegionFeatures(small())
    regions.describe(data.train, calibrate=True)
    image = data.train.items.image(1)
    first, count = int(data.train.candidates.offsets[1]), int(data.train.candidates.counts[1])
    boxes = data.train.candidates.boxes[first : first + count]
    torch.testing.assert_close(
        Learned(regions.network).describe(image, boxes), regions.describe(data.train).features[first : first + count]
    )
    assert isinstance(image, Image.Image)


# ---- interruption ------------------------------------------------------------------------------------------------


class StopAfter(pl.Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


@pytest.mark.slow
@pytest.mark.parametrize("hold", [False, True])
def test_a_resumed_run_ends_in_the_numbers_of_an_unbroken_one(hold, tmp_path):
    data = data_of()

    def make():
        return EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), augmentation=Augmentation(flip=0.0), hold=hold)

    whole, broken, resumed = (make() for _ in range(3))
    train(whole, data, epochs=4)
    train(broken, data, epochs=4, callbacks=[pl.callbacks.ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1), StopAfter(2)])
    train(resumed, data, epochs=4, ckpt_path=tmp_path / "epoch=1.ckpt")
    assert len(broken.history()) == 2
    for one, two in zip(whole.history(), resumed.history(), strict=True):
        assert two["objective"] == pytest.approx(one["objective"], rel=1e-4)
