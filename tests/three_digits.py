"""A small problem that mini-batches learn: three digits in clutter, described by HOG."""

import copy
import warnings
from functools import cache

import pytorch_lightning as pl
import torch
from torch import nn

from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning import LatentDataModule
from lvmdc.vision.datasets.digits import cluttered_digits
from lvmdc.vision.features.hog import HOG
from lvmdc.vision.proposals.base import WindowGrid

FEATURES = HOG().n_features


@cache
def built(per_class, digits, batch_size):
    data = LatentDataModule(
        cluttered_digits(per_class=per_class, digits=digits), WindowGrid(), HOG(), val_fraction=0.2, batch_size=batch_size, progress=False
    )
    data.setup()
    return data


def tiny_data(per_class=12, digits=(0, 2, 4), batch_size=8):
    """A copy of data that are made once."""
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


def network(features=FEATURES, classes=3, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, classes))
