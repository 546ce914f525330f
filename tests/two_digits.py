"""A small problem that a network learns from: two digits in clutter."""

import warnings

import pytorch_lightning as pl

from lvmdc import OverlapLoss
from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning import LatentDataModule
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import Learned, RegionNetwork
from lvmdc.vision.proposals.base import WindowGrid

SETTINGS = {"loss": OverlapLoss(), "C": 3.0, "init": "central"}


def data_of(images=None, batch_size=4):
    found = cluttered_digits(per_class=6, digits=(0, 4)) if images is None else images
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
