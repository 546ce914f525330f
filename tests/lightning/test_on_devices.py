"""Every LightningModule learns on a device what it learns on the CPU."""

import warnings

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.strategies import SingleDeviceStrategy
from three_digits import tiny_data
from two_digits import data_of, small

from lvmdc import DISC, EM, LSVM, M3E, OverlapLoss, SoftDISC
from lvmdc.lightning import AlternatingModule, DualModule, EndToEndModule, ExactModule, SoftModule

pytestmark = pytest.mark.filterwarnings("ignore")
SETTINGS = {"loss": OverlapLoss(), "C": 3.0, "init": "central"}
MODULES = {
    "exact LSVM": lambda: ExactModule(LSVM(**SETTINGS)),
    "exact DISC": lambda: ExactModule(DISC(J=0.01, **SETTINGS)),
    "exact EM": lambda: ExactModule(EM(**SETTINGS)),
    "exact M3E": lambda: ExactModule(M3E(**SETTINGS)),
    "alternating LSVM": lambda: AlternatingModule(LSVM(**SETTINGS)),
    "alternating DISC": lambda: AlternatingModule(DISC(J=0.01, **SETTINGS)),
    "dual LSVM": lambda: DualModule(LSVM(**SETTINGS)),
    "dual DISC": lambda: DualModule(DISC(J=0.01, **SETTINGS)),
    "soft": lambda: SoftModule(SoftDISC(J=0.01, **SETTINGS)),
    "end to end LSVM": lambda: EndToEndModule(LSVM(**SETTINGS), network=small()),
    "end to end DISC": lambda: EndToEndModule(DISC(J=0.01, **SETTINGS), network=small(), begin="steps", finish="steps"),
}


def train(module, data, on_cpu=False):
    """The trainer after two epochs, on the device of these tests or the CPU, and the measures on test data."""
    where = {"strategy": SingleDeviceStrategy(torch.device("cpu"), CPUAccelerator())} if on_cpu else {"accelerator": "cpu"}
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_epochs=2, num_sanity_val_steps=0, **where, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, datamodule=data)
        (measures,) = trainer.test(module, datamodule=data, verbose=False)
    return trainer, measures


@pytest.mark.parametrize("name", MODULES)
def test_it_learns_what_it_learns_on_the_cpu(name, device):
    data = data_of if name.startswith("end to end") else tiny_data
    module, reference = MODULES[name](), MODULES[name]()
    trainer, measures = train(module, data())
    assert trainer.strategy.root_device.type == device.type
    _, expected = train(reference, data(), on_cpu=True)
    assert len(module.history()) == len(reference.history())
    assert module.history()[-1]["objective"] == pytest.approx(reference.history()[-1]["objective"], rel=1e-3)
    assert measures == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", MODULES)
def test_its_checkpoint_is_measured_and_continued_on_the_device(name, device, tmp_path):
    data = data_of if name.startswith("end to end") else tiny_data
    module = MODULES[name]()
    trainer, measures = train(module, data())
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    content = torch.load(tmp_path / "two.ckpt", map_location="cpu", weights_only=True)
    again = MODULES[name]()
    again.load_learned(content["lvmdc"]["learned"])
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    (found,) = pl.Trainer(accelerator="cpu", **quiet).test(again, datamodule=data(), verbose=False)
    assert found == pytest.approx(measures, abs=1e-6)
    resumed = MODULES[name]()
    pl.Trainer(max_epochs=3, accelerator="cpu", num_sanity_val_steps=0, **quiet).fit(
        resumed, datamodule=data(), ckpt_path=tmp_path / "two.ckpt", weights_only=True
    )
    before = [row["objective"] for row in module.history()]
    assert [row["objective"] for row in resumed.history()][: len(before)] == before
    assert len(resumed.history()) > len(before) or resumed.learner.converged_
