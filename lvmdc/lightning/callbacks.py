"""Callbacks: progress bar, images for TensorBoard, and how to resume after an interruption."""

from __future__ import annotations

import logging
import signal
import threading

import numpy as np
import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.exceptions import SIGTERMException

from lvmdc.distributions import Conditional
from lvmdc.lightning.detector import DetectorModule
from lvmdc.lightning.drawing import captioned_sheet, draw_class, draw_samples
from lvmdc.lightning.module import LatentModule
from lvmdc.lightning.ranks import RanksStrategy, is_lost
from lvmdc.reporting.glossary import tag
from lvmdc.vision.detection import ExclusiveDetector

log = logging.getLogger(__name__)


class Progress(RichProgressBar):
    """Lightning's rich progress bar, which shows the objective."""

    def __init__(self) -> None:
        super().__init__(leave=False)


class Images(Callback):
    """To TensorBoard, every few epochs: images with their boxes and posteriors, and histograms of the posterior.

    Args:
        every_n_epochs: how often.
        count: how many images, evenly over the training part.
    """

    def __init__(self, every_n_epochs: int = 2, count: int = 8):
        if every_n_epochs < 1 or count < 1:
            raise ValueError(f"every_n_epochs and count must be at least 1, but they are {every_n_epochs} and {count}")
        self.every_n_epochs, self.count = every_n_epochs, count

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, LatentModule)
        boards = [logger.experiment for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]
        if not trainer.is_global_zero or not boards:
            return
        train, step = pl_module.data.train, trainer.current_epoch
        assert train is not None
        if isinstance(pl_module, DetectorModule):  # the class of this epoch, the last that was learned, or all of them
            learned = list(pl_module.detector.history_)
            for k in learned if isinstance(pl_module.detector, ExclusiveDetector) else learned[-1:]:
                for board in boards:
                    board.add_image(
                        tag("images", "train", pl_module.classes[k]), np.asarray(draw_class(pl_module, train, k)), k, dataformats="HWC"
                    )
            return
        if trainer.current_epoch % self.every_n_epochs and not trainer.should_stop:
            return
        sheet = np.asarray(captioned_sheet(draw_samples(pl_module, train, self.count)))
        samples = pl_module.described(train).to(pl_module.device)
        p = pl_module.posterior(samples.candidates, samples.y)
        for board in boards:
            board.add_image("images/train", sheet, step, dataformats="HWC")
            board.add_histogram("posterior/probability", p, step)
            board.add_histogram("posterior/entropy", Conditional(samples.candidates, samples.y, p).entropy(), step)


def end(signum: int, frame: object) -> None:
    """Handle SIGTERM, as SLURM sends it when a job's time is over: end at once, with the exit code that shells give for it."""
    signal.signal(signum, signal.SIG_IGN)  # whoever sends it may send it twice
    raise SIGTERMException(128 + signum)


class ResumeHint(Callback):
    """After an interruption, a signal to end, a full disk, or the loss of a rank: say which checkpoint to resume from, at most one epoch
    old."""

    def __init__(self, command: str):
        self.command, self.started = command, False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if isinstance(trainer.strategy, RanksStrategy):
            trainer.strategy.on_loss = lambda: self.say(trainer, "a rank was lost")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started = True
        # Lightning waits for the end of the batch, which for the exact solver may be minutes, and then ends as if all were well.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, end)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        if isinstance(exception, KeyboardInterrupt):
            self.say(trainer, "interrupted")
        elif isinstance(exception, SIGTERMException):
            self.say(trainer, "ended by SIGTERM")
        elif isinstance(exception, OSError) and self.started:
            self.say(trainer, "a file could not be written")
        elif trainer.world_size > 1 and is_lost(exception):
            waited = f" within {trainer.strategy.seconds:g} s" if isinstance(trainer.strategy, RanksStrategy) else ""
            self.say(trainer, f"rank {trainer.global_rank}: another of the {trainer.world_size} ranks ended, or did not answer{waited}")

    def say(self, trainer: pl.Trainer, what: str) -> None:
        """Why it ended, and how to go on; by two of the ranks, one of which may be the one that was lost."""
        if trainer.global_rank > 1:
            return
        last = [c.last_model_path for c in trainer.callbacks if isinstance(c, ModelCheckpoint) and c.last_model_path]  # type: ignore[attr-defined]
        if last:
            log.warning("%s; all epochs but the current one are kept. To go on:\n  %s ckpt_path='%s'", what, self.command, last[0])
        elif (data := trainer.datamodule).samples is None and data.cache_dir is not None:  # type: ignore[attr-defined]
            kept = f"the candidates of finished images are kept in {data.cache_dir}, and the same command goes on from there"
            log.warning("%s, before the first checkpoint was written; %s:\n  %s", what, kept, self.command)
        else:
            log.warning("%s, before the first checkpoint was written", what)
