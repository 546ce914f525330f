"""Learning end to end: derivatives through RoIAlign and the network, the frozen case, interruption, and what is refused."""

import copy
import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from PIL import Image
from torch import nn

import lvmdc
from lvmdc import DISC, LSVM, OverlapLoss, SoftDISC
from lvmdc.data import PictureSet, cluttered_digits
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.features import CNN, HOG, Learned, RegionNetwork
from lvmdc.learners import ConvergenceWarning
from lvmdc.losses import BoundLoss
from lvmdc.proposals.grid import WindowGrid
from lvmdc.training import EndToEndModule, ExactModule, LatentDataModule, StochasticModule
from lvmdc.training.augmentation import Augmentation
from lvmdc.training.batch_objective import BatchObjective, batch_objective
from lvmdc.training.batches import Batch
from lvmdc.training.refusals import check_precision
from lvmdc.training.region_features import RegionFeatures

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*", "ignore:.*in eval mode at the start.*"
)
SETTINGS = {"loss": OverlapLoss(), "C": 3.0, "init": "central"}


def data_of(pictures=None, batch_size=4):
    found = cluttered_digits(per_class=6, digits=(0, 4)) if pictures is None else pictures
    return LatentDataModule(found, WindowGrid(stride=16), Learned(), batch_size=batch_size, progress=False)


def small(**settings):
    return RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, **settings)


def train(module, data, epochs=2, ckpt_path=None, callbacks=(), **settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=list(callbacks), enable_checkpointing=bool(callbacks), **quiet, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trainer.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


# ---- derivatives -------------------------------------------------------------------------------------------------


class Tiny(RegionNetwork):
    """Two smooth convolutions in double precision, to a map of four cells."""

    def __init__(self, channels, **settings):
        super().__init__("small_cnn", weights=None, stride=8, longer_side=16, **settings)
        torch.manual_seed(0)
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 2, 3, stride=4, padding=1), nn.Softplus(), nn.Conv2d(2, channels, 3, stride=2, padding=1), nn.Tanh()
        )
        self.channels = channels
        self.double()


@pytest.mark.parametrize("learner", [DISC, LSVM, SoftDISC])
@pytest.mark.parametrize("theta_bound", ["slack", "prediction"])
@pytest.mark.parametrize("theta_grid", [None, 2])
@pytest.mark.parametrize("channels", [2, 5])  # fewer than cells, and more: the two ways of `roi_pool`
def test_the_gradient_of_the_whole_objective_is_that_of_differences(learner, theta_bound, theta_grid, channels):
    """Through P_w, P_θ, the length, RoIAlign and the network, in w, θ and the network's weights."""
    if learner is not DISC and (theta_bound, theta_grid) != ("slack", None):
        pytest.skip("has one form")
    rng = np.random.default_rng(1)
    pictures = PictureSet([rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) for _ in range(2)], ["a", "b"], [0, 1])
    data = LatentDataModule(pictures, WindowGrid(size=(8, 8), stride=4), Learned(), fraction=0.5, progress=False)
    samples = data._of_pictures().subset(torch.tensor([0, 1]))
    network = Tiny(channels, theta_grid=theta_grid).train()
    given = learner(**SETTINGS) if learner is not DISC else DISC(theta_bound=theta_bound, **SETTINGS)
    d, d_theta = channels, channels * (theta_grid or 1) ** 2
    w, theta = torch.randn(2, d, dtype=torch.float64) / 8, torch.randn(2, d_theta, dtype=torch.float64) / 8
    regions, unknown = RegionFeatures(network), torch.full((2,), -1)
    names, weights = zip(*((name, p.detach().clone().requires_grad_()) for name, p in network.named_parameters()), strict=True)

    def parts(w, theta, *weights):
        found = torch.func.functional_call(network, dict(zip(names, weights, strict=True)), tuple(regions._views(samples)))
        candidates = regions._candidates(samples, *found)
        p_w, p_theta = Given(LinearPrediction(torch.zeros(2, d)), w), GivenTheta(LogLinear(torch.zeros(2, d_theta)), theta)
        batch = Batch(
            BoundLoss(OverlapLoss(), candidates, samples.y, 2),
            torch.zeros(candidates.n_candidates),
            unknown,
            torch.arange(candidates.n_candidates),
        )
        return batch_objective(given, p_w, None if learner is LSVM else p_theta), batch

    def whole(w, theta, *weights):
        """(11), or, where θ minimises (15), that."""
        objective, batch = parts(w, theta, *weights)
        if learner is not DISC:
            return objective.value(batch)
        p, scores = objective.p_theta.log_prob(batch.candidates, batch.y).exp(), objective.p_w.scores(batch.candidates)
        if theta_bound == "prediction":
            return objective._problem(batch, scores.detach()).risk(p)
        each = objective.slacks(batch, scores, p) - objective.beta * batch.bound.diversity(p)
        return 0.5 * w.square().sum() + 0.5 * objective.J * theta.square().sum() + objective.C * each.mean()

    inputs = (w.requires_grad_(theta_bound == "slack"), theta.requires_grad_(learner is not LSVM), *weights)
    assert torch.autograd.gradcheck(whole, inputs, atol=1e-4, rtol=1e-3)
    if theta_bound == "slack":  # then a step of all three is one on (11)
        objective, batch = parts(*inputs)
        learned = [v for v in inputs if v.requires_grad]
        for one, two in zip(
            torch.autograd.grad(objective.value(batch), learned), torch.autograd.grad(whole(*inputs), learned), strict=True
        ):
            torch.testing.assert_close(one, two)


class Given(LinearPrediction):
    def __init__(self, like, w):
        super().__init__(like.w)
        self.given = w

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates):
        return candidates.features @ self.given.T


class GivenTheta(LogLinear):
    def __init__(self, like, theta):
        super().__init__(like.theta)
        self.given = theta

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates, y):
        return (candidates.for_phi().features * self.given[y][candidates.sample]).sum(1)


def test_a_step_moves_the_network_only_where_it_may():
    data = data_of()
    for frozen, moved in ((2, False), (0, True)):
        module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), frozen_epochs=frozen)
        before = copy.deepcopy(module.network.state_dict())
        train(module, data, epochs=1)
        assert any(not torch.equal(v, before[k]) for k, v in module.network.state_dict().items() if k.startswith("trunk")) == moved


# ---- the frozen case ---------------------------------------------------------------------------------------------


def test_a_frozen_network_is_training_from_extracted_features():
    data, own = data_of(), {"optimizer_w": partial(torch.optim.SGD, lr=1e-2)}  # the same subgradient steps for both
    settings = {"frozen_epochs": 99, "begin": "steps", "finish": "steps", "augmentation": Augmentation(0, (1, 1), 0)}
    module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), **settings, **own)
    train(module, data, epochs=25)
    extracted = copy.copy(data)
    extracted.train, extracted.features = module.described(data.train), CNN("small_cnn", "roi", weights=None, stride=8)
    plain = StochasticModule(DISC(J=0.01, **SETTINGS), **own)
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
def test_what_is_held_stays_while_w_and_the_network_learn(learner):
    data = data_of()
    network = small()
    first = RegionFeatures(network).describe((data.setup(), data.train)[1], calibrate=True)
    exact = copy.deepcopy(learner).fit(first, data.train.y)
    h = first.rows(h_star(first, LinearPrediction(exact.coef_), data.train.y))
    module = EndToEndModule(
        learner, network=network, hold=True, finish="steps", optimizer_backbone=partial(torch.optim.AdamW, lr=1e-3), average=None
    )
    seen = []
    hold_up = BatchObjective.hinge

    def hinge(self, batch, scores, p, warm):
        seen.append((batch, p, warm))
        return hold_up(self, batch, scores, p, warm)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchObjective, "hinge", hinge)
        train(module, data, epochs=2)
    assert torch.equal(module.samples.start.nonzero().flatten(), h.sort().values)
    assert all(warm for _, _, warm in seen)
    assert all(int(batch.start.sum()) == len(batch.y) for batch, _, _ in seen)
    if isinstance(learner, LSVM):  # all mass on h*, which is no longer the best of the learned w everywhere
        assert all(torch.equal(batch.start.to(p), p) for batch, p, _ in seen)
    else:
        torch.testing.assert_close(module.pair.p_theta.theta.detach(), exact.model_.theta.detach().to(module.pair.p_theta.theta))
    assert not torch.allclose(module.samples.candidates.features, first.features, atol=1e-2)


def h_star(candidates, p_w, y):
    from lvmdc.inference import best_of_class

    return candidates.index(best_of_class(candidates, p_w.scores(candidates), y))


def test_learning_the_network_lowers_the_objective_below_the_frozen_one():
    data = data_of()
    module = EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), optimizer_backbone=partial(torch.optim.AdamW, lr=2e-4))
    train(module, data, epochs=12)
    frozen = DISC(J=0.01, **SETTINGS).fit(StillSees(data).candidates, data.train.y)
    assert module.history()[-1]["objective"] < 0.9 * frozen.objective_


class StillSees:
    """The training pictures by the network before it learned."""

    def __init__(self, data):
        regions = RegionFeatures(small())
        self.candidates = regions.describe(data.train, calibrate=True)


@pytest.mark.parametrize(
    "settings", [{"alternate": True}, {"theta_to_backbone": False}, {"clip": None}, {"begin": "steps", "finish": "steps"}]
)
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


# ---- interruption ------------------------------------------------------------------------------------------------


class StopAfter(pl.Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


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


def test_an_unreadable_picture_stops_learning_at_once_and_is_named(tmp_path):
    made = cluttered_digits(per_class=6, digits=(0, 4))
    files = [tmp_path / f"{i}.png" for i in range(len(made))]
    for i, file in enumerate(files):
        made.image(i).save(file)
    data = data_of(PictureSet(files, made.classes, made.y, made.boxes))
    data.setup()  # the boxes are known, as from the cache
    for file in files[::2]:
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"\d+\.png cannot be read as a picture"):
        train(EndToEndModule(LSVM(**SETTINGS), network=small()), data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"begin": "soon"}, "begin must be one of exact, steps, but it is 'soon'"),
        ({"hold": True, "begin": "steps"}, r"hold keeps h\* where the exact solver left it, so that begin must be 'exact'"),
        ({"frozen_epochs": -1}, "frozen_epochs must be at least 0"),
        ({"clip": 0.0}, "clip positive, but they are 0 and 0.0"),
        ({"prediction": nn.Linear(128, 2)}, "begin and finish must be 'steps' where prediction or conditional is a network"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        EndToEndModule(LSVM(**SETTINGS), network=small(), **settings)


def test_one_picture_is_described_as_in_its_set():
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


@pytest.mark.parametrize(
    ("make", "features", "message"),
    [
        (lambda: EndToEndModule(LSVM(**SETTINGS), network=small()), HOG(), "the data must have features=learned"),
        (lambda: StochasticModule(LSVM(**SETTINGS)), Learned(), "features=learned are there to be learned, by solver=end_to_end"),
        (lambda: ExactModule(LSVM(**SETTINGS)), Learned(), "features=learned are there to be learned, by solver=end_to_end"),
    ],
)
def test_features_that_would_not_be_looked_at_are_refused(make, features, message):
    data = LatentDataModule(cluttered_digits(per_class=3, digits=(0, 4)), WindowGrid(stride=16), features, batch_size=4, progress=False)
    with pytest.raises(ValueError, match=message):
        train(make(), data)


def test_no_device_is_named():
    """In no file that a step goes through."""
    package = Path(lvmdc.__file__).parent
    features = ("length_norm", "regions", "roi_pool", "small_cnn", "trunk")
    training = ("augmentation", "batch_objective", "batches", "dual_averaging", "end_to_end", "exact_heads", "kept_pictures", "module")
    training += ("networks", "norms", "optimisers", "pair", "region_features", "stochastic")
    for file in [*(package / "features" / f"{name}.py" for name in features), *(package / "training" / f"{name}.py" for name in training)]:
        assert not re.search(r"cuda|[\"']cpu[\"']", file.read_text(encoding="utf-8")), file.name


@pytest.mark.parametrize(("backbone", "weights"), [("efficientnet_lite0", "default"), ("mobilenet_v3_small", None)])
def test_networks_for_photographs_learn(backbone, weights):
    data = data_of(cluttered_digits(per_class=4, digits=(0, 4)))
    network = RegionNetwork(backbone, weights=weights, longer_side=64, checkpointing=True)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    module = EndToEndModule(LSVM(**SETTINGS), network=network)
    train(module, data, epochs=1)
    moved = [name for name, p in network.named_parameters() if not torch.equal(p, before[name])]
    assert len(moved) > 0.9 * len(before)
    assert float(module.samples.candidates.features.norm(dim=1).square().mean().sqrt()) == pytest.approx(8, rel=1e-3)
