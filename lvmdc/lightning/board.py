"""TensorBoard: tags that its filters and other programs can read, and each number once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger
from torch.utils.tensorboard.summary import hparams

from lvmdc.reporting.glossary import tag


class Board(TensorBoardLogger):
    """Lightning's logger with clean tags, and without the epoch, which is the step."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        super().log_metrics({tag(*name.split("/")): value for name, value in metrics.items() if name != "epoch"}, step)

    def log_results(self, settings: Mapping[str, Any], measures: Mapping[str, float]) -> None:
        """Settings and final measures, by which TensorBoard compares runs. Those of `val/` and `test/`, which it has as curves, are not
        logged again."""
        names = {name: name if name.startswith(("val/", "test/")) else f"final/{name}" for name in measures}
        self.log_hyperparams(dict(settings))
        self.log_metrics({name: measures[k] for k, name in names.items() if name != k}, step=0)
        for summary in hparams(dict(settings), {tag(*name.split("/")): measures[k] for k, name in names.items()}):
            self.experiment.file_writer.add_summary(summary)
        self.save()
