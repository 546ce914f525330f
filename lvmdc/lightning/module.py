"""What every LightningModule here has: measures of its predictions, logging, and checkpoints of tensors and plain data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor

from lvmdc.boxes import box_iou
from lvmdc.candidates import Candidates
from lvmdc.distributions import Prediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.data import LatentDataModule, Samples
from lvmdc.losses import Loss
from lvmdc.reporting.glossary import tag
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.base import Features
from lvmdc.vision.features.regions import Learned
from lvmdc.vision.metrics.localisation import overlaps

CHECKPOINT_KEY = "lvmdc"  # the entry of a checkpoint that is ours, beside Lightning's own


class LatentModule(pl.LightningModule, ABC):
    """A training of P_w and P_θ under Lightning.

    Args:
        learner: the method with its loss and hyperparameters.
        config: the composed configuration as plain data. It is kept in the checkpoint, which can therefore be used without it.
    """

    learns_features: bool = False  # or takes them from the data

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
        """The current P_w."""

    @abstractmethod
    def posterior(self, candidates: Candidates, y: Tensor) -> Tensor:
        """(T,): the current P_θ(h | x, y)."""

    @abstractmethod
    def history(self) -> list[dict[str, float]]:
        """One row per epoch: (11) by its terms, and other measures."""

    def check_data(self, data: LatentDataModule) -> None:
        """Refuse data that this module cannot learn from, before any work."""
        if not data.one_class:
            raise ValueError("these images have several labels each: use module=detector with them")

    def check_ready(self) -> None:
        """Refuse what was loaded where it cannot predict these classes."""
        if self.learner.n_classes_ != len(self.classes):
            raise ValueError(f"it names {len(self.classes)} classes, but it learned {self.learner.n_classes_}")
        probe = Candidates(torch.zeros(1, self.learner.n_features_in_), [1], torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
        with torch.no_grad():
            self.prediction(probe).predict(probe)

    def comparisons(self) -> dict[str, dict[str, float]]:
        """Measures of what the results are compared with, by the name of the part and the other method."""
        return {}

    def check_over_ranks(self) -> None:
        """Refuse what cannot be learned over several ranks, before they start."""

    def setup(self, stage: str) -> None:
        self.classes = self.data.classes
        to_learn = isinstance(getattr(self.data, "features", None), Learned)
        if self.learns_features and not to_learn:
            raise ValueError("module=end_to_end learns features from pixels, so that the data must have features=learned, and images")
        if self.learns_features and self.data.kernel_map is not None:
            raise ValueError("kernel_map needs features that do not change, but module=end_to_end learns them; use kernel_map=none")
        if to_learn and not self.learns_features:
            raise ValueError("features=learned are learned by module=end_to_end; other modules need another features=")

    def described(self, samples: Samples) -> Samples:
        """The samples with the features that this module takes."""
        return samples

    def describer(self, features: Features) -> Features:
        """What describes other images for it, where `features` described those of its data."""
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
        """Send a row of the history to the loggers, and its objective to the progress bar."""
        shown = {tag("train", name): float(value) for name, value in row.items() if name != "iteration"}
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=1)
        self.log("objective", float(row["objective"]), prog_bar=True, logger=False, on_step=False, on_epoch=True, batch_size=1)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    @abstractmethod
    def learned(self) -> dict[str, Any]:
        """What was learned, as tensors and plain data."""

    @abstractmethod
    def load_learned(self, learned: dict[str, Any]) -> None:
        """Restore from `learned()`, to predict or to continue."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kind = {"module": type(self).__name__, "config": self.config, "classes": list(self.classes)}
        state = {} if self.data.prior is None else self.data.prior.state_dict()
        checkpoint[CHECKPOINT_KEY] = kind | {"learned": self.learned() | ({"prior": state} if state else {})}


def evaluate(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, float]:
    """The means of `measures_of` predictions y_hat (n,), h_hat (n,). Where each rank has some of the samples, all ranks call it, and the
    means are over all samples."""
    values = {name: v.double() for name, v in measures_of(samples, loss, y_hat, h_hat).items()}
    sums = torch.tensor([[float(v.sum()), len(v)] for v in values.values()], dtype=torch.float64, device=y_hat.device)
    if samples.divided:
        dist.all_reduce(sums)
    return {name: total / n for name, (total, n) in zip(values, sums.tolist(), strict=True) if n}


def measures_of(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, Tensor]:
    """Measures of predictions, one value for each sample that has the measure: `error` of the class and, where the true h is known,
    the `loss`. Images also have the `overlap` of the predicted box with the true one, and `corloc`, whether it is at least a half.
    Other samples have `latent_error`, whether h is wrong, if their class has a latent variable, and `overlap`, if their candidates
    have boxes."""
    found = {"error": samples.y != y_hat}
    if samples.h is None:
        return found
    index = (samples.h >= 0).nonzero().flatten()
    if len(index) == 0:  # other ranks may know some
        return found | {name: torch.zeros(0) for name in ("loss", "overlap", "corloc")}
    if len(index) < len(samples):
        return measures_of(samples.subset(index), loss, y_hat[index], h_hat[index]) | found
    found["loss"] = loss.between(samples.candidates, samples.y, samples.h, y_hat, h_hat)
    if not isinstance(samples.items, ImageSet):
        latent = torch.tensor(samples.items.latent, device=y_hat.device)
        has_h, c = latent[samples.y].nonzero().flatten(), samples.candidates
        none = ~latent[y_hat[has_h]]  # a class without h finds none
        found["latent_error"] = (h_hat != samples.h)[has_h].logical_or(none)
        if c.boxes is not None:
            iou = box_iou(c.boxes[c.rows(h_hat)], c.boxes[c.rows(samples.h)])[has_h]
            found["overlap"] = iou.masked_fill(none, 0.0)
        return found
    assert samples.items.boxes is not None  # or h would not be known
    found["overlap"] = overlaps(samples.candidates, h_hat, samples.items.boxes.to(y_hat.device))
    found["corloc"] = found["overlap"] >= 0.5
    return found
