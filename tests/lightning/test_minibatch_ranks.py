"""Mini-batches over two ranks of torch.distributed: the steps, the rows and the measures of one process."""

import copy
import logging
import os
import warnings

import pytest
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from learners.problems import problem
from noise import Noise
from processes import start_ranks
from torch import nn

from lvmdc import DISC, LSVM, FunctionLoss, OverlapLoss, SoftDISC, Supervised, ZeroOneLoss
from lvmdc.distributed import Shard, divide
from lvmdc.lightning import AlternatingModule, DualModule, EndToEndModule, LatentDataModule, SoftModule, SparseModule
from lvmdc.lightning.batches import TrainingSet
from lvmdc.lightning.ranks import RanksStrategy
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.base import WindowGrid

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::lvmdc.learners.ConvergenceWarning")
EPOCHS, BROKEN = 3, 2  # epochs of a training, and of one that another number of ranks goes on with
BLOCKS = {"DISC by blocks": (8, 6)}  # the same where w comes first: θ has moved by the sixth
RESUMED = ["DISC", "DISC by blocks", "sparse"]


def by_row(y1, h1, y2, h2):
    """A loss that depends on the row of a candidate in the whole set."""
    return torch.where(y1 == y2, (h1.double().sin() - h2.double().sin()).abs() / 2, 1.0)


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def end_to_end(**settings):
    torch.manual_seed(0)
    network = RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64).double()
    return EndToEndModule(DISC(OverlapLoss(), C=3.0, init="central"), network=network, **settings)


CASES = {
    "DISC": lambda: AlternatingModule(DISC(ZeroOneLoss(), C=5.0, J=0.01)),
    "DISC by blocks": lambda: DualModule(DISC(OverlapLoss(), C=0.1, J=0.01, tol=1.0, init="random", cccp="inexact")),
    "DISC slack": lambda: AlternatingModule(DISC(OverlapLoss(), C=5.0, J=0.1, theta_bound="slack", init="uniform")),
    "LSVM": lambda: DualModule(LSVM(OverlapLoss(), C=5.0, init="central")),
    "Supervised": lambda: DualModule(Supervised(OverlapLoss(), C=5.0)),
    "SoftDISC": lambda: SoftModule(SoftDISC(OverlapLoss(), C=5.0, J=0.01)),
    "sparse": lambda: SparseModule(DISC(OverlapLoss(), C=50.0, J=0.1), norm="group"),
    "networks": lambda: AlternatingModule(DISC(C=5.0), prediction=network(0), conditional=network(1)),
    "end to end": lambda: end_to_end(begin="steps", finish="steps"),
    "end to end, exact begin": lambda: end_to_end(finish="steps"),
}


def long(name):
    return BLOCKS.get(name, (EPOCHS, BROKEN))[0]


def short(name):
    return BLOCKS.get(name, (EPOCHS, BROKEN))[1]


def data_of(name):
    if name.startswith("end to end"):
        images = cluttered_digits(per_class=3, digits=(0, 4))
        return LatentDataModule(images, WindowGrid(stride=16), Learned(), batch_size=3, val_fraction=0.3, progress=False)
    return LatentDataModule(samples=Noise(4 if name == "DISC slack" else 0), batch_size=4, val_fraction=0.3, progress=False)


def train(name, epochs, ckpt_path=None, ranks=1):
    """What was learned and measured, as plain data, and the trainer."""
    module, data = CASES[name](), data_of(name)
    settings = {} if ranks == 1 else {"devices": ranks, "strategy": RanksStrategy(timeout=60), "use_distributed_sampler": False}
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, **quiet, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
        tested = trainer.test(module, datamodule=data, verbose=False)[0]
    state = {key: value.clone() for key, value in module.state_dict().items()}
    return {"rows": copy.deepcopy(module.history()), "state": state, "tested": tested, "samples": len(data.train)}, trainer


def rank(index, folder):
    """All that is asked of two ranks, in one process each, since starting one takes longer than all of it."""
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    os.environ |= {"RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "one"}
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=index, world_size=2)
    found = {"learned": {}, "resumed": {}}
    for name in CASES:
        found["learned"][name], _ = train(name, long(name), ranks=2)
    for name in RESUMED:
        found["resumed"][name], _ = train(name, long(name), folder / f"{name}.ckpt", ranks=2)
        train(name, short(name), ranks=2)[1].save_checkpoint(folder / f"{name} of two.ckpt")
    torch.save(found, folder / f"rank_{index}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for name in RESUMED:
        train(name, short(name))[1].save_checkpoint(folder / f"{name}.ckpt")
    start_ranks(rank, folder)
    return folder


@pytest.fixture(scope="module")
def ranks(folder):
    return [torch.load(folder / f"rank_{index}.pt", weights_only=True) for index in range(2)]


def assert_same(found, expected):
    for one, two in zip(found["rows"], expected["rows"], strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == pytest.approx({k: v for k, v in two.items() if k != "seconds"}, abs=1e-6)
    for key, value in expected["state"].items():
        torch.testing.assert_close(found["state"][key], value, rtol=0, atol=1e-6, msg=key)
    assert found["tested"] == pytest.approx(expected["tested"], abs=1e-6)


@pytest.mark.parametrize("name", list(CASES))
def test_two_ranks_learn_by_mini_batches_what_one_process_learns(ranks, name):
    alone, _ = train(name, long(name))
    assert len(alone["rows"]) == long(name)
    assert name not in BLOCKS or alone["rows"][-1]["theta_norm"] > 0
    for found in ranks:
        assert_same(found["learned"][name], alone)


def test_each_rank_holds_its_samples_and_no_others(ranks):
    whole = train("DISC", 1)[0]["samples"]
    parts = [found["learned"]["DISC"]["samples"] for found in ranks]
    assert sum(parts) == whole
    assert min(parts) > 1


@pytest.mark.parametrize("name", RESUMED)
def test_training_by_mini_batches_goes_on_over_another_number_of_ranks(ranks, folder, name):
    alone, _ = train(name, long(name))
    for found in ranks:
        assert_same(found["resumed"][name], alone)  # two ranks where one process was
    assert_same(train(name, long(name), folder / f"{name} of two.ckpt")[0], alone)  # and one where two were


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 4, 20])
def test_the_shares_of_a_batch_make_up_its_mean_whatever_the_number_of_ranks(world, size):
    c = problem(5, n=20, most=4).candidates
    bounds, index = divide(c.counts, world), torch.randperm(20, generator=torch.Generator().manual_seed(size))[:size]

    def diversity(candidates):
        """The mean over a batch, with its share in the whole."""
        every, none = torch.zeros(candidates.n_candidates), torch.full((len(candidates),), -1)
        batch = TrainingSet(candidates, none + 1, FunctionLoss(by_row, latent="row"), 1, every, none).batch(index)
        p = torch.ones(batch.candidates.n_candidates, dtype=torch.float64)
        return batch.share * float(batch.loss.diversity(p).mean())

    shards = [Shard(*bounds, rank=r) for r in range(world)]
    parts = [c.part(at.first("samples"), at.samples[at.rank + 1], at) for at in shards]
    assert sum(diversity(part) for part in parts) / world == pytest.approx(diversity(c), abs=1e-12)
    assert diversity(c) > 0 or size == 1
