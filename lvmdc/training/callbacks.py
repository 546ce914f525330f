"""What goes on beside the training: progress, pictures for TensorBoard, and how to go on after an interruption."""

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
from lvmdc.training.module import LatentModule
from lvmdc.training.pictures import draw_samples
from lvmdc.training.ranks import RanksStrategy, is_lost

log = logging.getLogger(__name__)


class Progress(RichProgressBar):
    """Lightning's rich progress bar; the objective stands in it."""

    def __init__(self) -> None:
        super().__init__(leave=False)


class Pictures(Callback):
    """To TensorBoard, every few epochs: pictures with their boxes and posteriors, and histograms of the posterior.

    Args:
        every_n_epochs: how often.
        count: how many pictures, evenly over the training part.
    """

    def __init__(self, every_n_epochs: int = 2, count: int = 8):
        if every_n_epochs < 1 or count < 1:
            raise ValueError(f"every_n_epochs and count must be at least 1, but they are {every_n_epochs} and {count}")
        self.every_n_epochs, self.count = every_n_epochs, count

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, LatentModule)
        if not trainer.is_global_zero or (trainer.current_epoch % self.every_n_epochs and not trainer.should_stop):
            return
        train = pl_module.data.train
        assert train is not None
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                step = trainer.current_epoch
                for i, (_, image) in enumerate(draw_samples(pl_module, train, self.count)):
                    logger.experiment.add_image(f"training/{i}", np.asarray(image), step, dataformats="HWC")
                samples = pl_module.described(train).to(pl_module.device)
                p = pl_module.posterior(samples.candidates, samples.y)
                logger.experiment.add_histogram("posterior/probability", p, step)
                entropy = Conditional(samples.candidates, samples.y, p).entropy()
                logger.experiment.add_histogram("posterior/entropy", entropy, step)


def end(signum: int, frame: object) -> None:
    """What a job does when it is told to end, as SLURM tells one whose time is over: at once, with the code that shells give for it."""
    signal.signal(signum, signal.SIG_IGN)  # whoever sends it may send it twice
    raise SIGTERMException(128 + signum)


class ResumeHint(Callback):
    """After an interruption, a signal to end, a full disk, or the loss of a rank: which checkpoint to go on from. It is at most one epoch
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
        else:
            log.warning("%s, before the first checkpoint was written", what)
