"""What the exact and the stochastic LightningModule share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import Prediction
from lvmdc.features.base import Features
from lvmdc.learners import LatentLearner
from lvmdc.training.data import LatentDataModule, Samples
from lvmdc.training.evaluate import evaluate
from lvmdc.training.refusals import check_features

CHECKPOINT_KEY = "lvmdc"  # what a checkpoint holds of ours, beside Lightning's own


class LatentModule(pl.LightningModule, ABC):
    """A training of P_w and P_θ under Lightning: logging, evaluation and checkpoints of tensors and plain data.

    Args:
        learner: the method with its loss and hyperparameters.
        config: the composed configuration as plain data, kept in the checkpoint so that it says how to use itself.
    """

    learns_features: bool = False  # or takes them as the data have them

    def __init__(self, learner: LatentLearner, config: dict[str, Any] | None = None):
        super().__init__()
        self.automatic_optimization = False
        self.learner, self.config = learner, config or {}
        self.classes: list[str] = []

    @property
    def data(self) -> LatentDataModule:
        """The data module of the trainer."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, LatentDataModule)
        return data

    @abstractmethod
    def prediction(self, candidates: Candidates) -> Prediction:
        """P_w as it stands."""

    @abstractmethod
    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        """(T,): P_θ(h | x, y) as it stands."""

    @abstractmethod
    def history(self) -> list[dict[str, float]]:
        """One row an epoch: the objective by its terms and what else was measured."""

    def check_over_ranks(self) -> None:
        """Refuse what cannot be learned over several ranks, before they start."""

    def setup(self, stage: str) -> None:
        self.classes = self.data.classes
        check_features(self.data, self.learns_features)

    def described(self, samples: Samples) -> Samples:
        """The samples as this module sees them: their candidates with the features that it takes."""
        return samples

    def describer(self, features: Features) -> Features:
        """What describes other pictures for it, given what described those of its data."""
        return features

    def measure(self, samples: Samples) -> dict[str, float]:
        """Loss, class error and localisation on samples."""
        samples = self.described(samples).to(self.device)
        with torch.autocast(self.device.type, enabled=False):  # scores in half precision would tie
            return evaluate(samples, self.learner.loss_, *self.prediction(samples.candidates).predict(samples.candidates))

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        assert self.data.val is not None
        self._log_measures("val", self.measure(self.data.val), len(batch))

    def test_step(self, batch: Tensor, batch_idx: int) -> None:
        assert self.data.test is not None
        self._log_measures("test", self.measure(self.data.test), len(batch))

    def _log_measures(self, part: str, measures: dict[str, float], n: int) -> None:
        self.log_dict({f"{part}/{name}": value for name, value in measures.items()}, batch_size=n, prog_bar=part == "val")

    def log_row(self, row: dict[str, float]) -> None:
        """A row of the history to the loggers, its objective to the progress bar."""
        shown = {f"train/{name}": float(value) for name, value in row.items() if name != "iteration"}
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=1)
        self.log("objective", float(row["objective"]), prog_bar=True, logger=False, on_step=False, on_epoch=True, batch_size=1)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    @abstractmethod
    def learned(self) -> dict[str, Any]:
        """What was learned, as tensors and plain data."""

    @abstractmethod
    def load_learned(self, learned: dict[str, Any]) -> None:
        """Take up what `learned` gave, to predict or to go on."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kind = {"module": type(self).__name__, "config": self.config, "classes": list(self.classes)}
        checkpoint[CHECKPOINT_KEY] = kind | {"learned": self.learned()}
