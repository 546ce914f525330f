"""What the model sees: an image with its true box, its predicted box and the posterior over boxes; and what w looks like."""

from __future__ import annotations

import logging
import signal
import threading

import numpy as np
import pytorch_lightning as pl
import torch
from PIL import Image
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import Conditional, LinearPrediction
from lvmdc.lightning.data import Samples
from lvmdc.lightning.module import LatentModule
from lvmdc.lightning.ranks import RanksStrategy, is_lost
from lvmdc.reporting.drawing import draw_detection
from lvmdc.reporting.logo import draw_logo
from lvmdc.samples import CandidateSet
from lvmdc.sequences.motif import SequenceSet
from lvmdc.sequences.motif_map import BOUND, MotifMap


def spread(n: int, count: int) -> torch.Tensor:
    """`count` indices evenly over 0..n−1: samples stand by class, so this shows all of them.

    >>> spread(10, 3)
    tensor([0, 4, 9])
    """
    return torch.linspace(0, n - 1, min(n, count)).long()


def draw_samples(module: LatentModule, samples: Samples, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the samples as the model sees them, each with its name."""
    shown = module.described(samples.subset(spread(len(samples), count))).to(module.device)
    y_hat, h_hat = module.prediction(shown.candidates).predict(shown.candidates)
    p = module.posterior(shown.candidates, shown.y).cpu()
    candidates, items = shown.candidates.to("cpu"), shown.items
    direct = isinstance(items, CandidateSet)
    latent = items.latent if isinstance(items, CandidateSet) else [True] * len(items.classes)
    drawn = []
    for i, (start, count_i) in enumerate(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True)):
        image, y, guess = items.image(i), int(shown.y[i]), int(y_hat[i])
        boxes, truth = _places(shown, candidates, i)
        caption = items.classes[y] if guess == y else f"{items.classes[y]}, taken for {items.classes[guess]}"
        found = draw_detection(
            image,
            predicted=boxes[int(h_hat[i])] if latent[guess] else None,
            truth=truth if latent[y] else None,
            boxes=boxes if latent[y] else None,
            posterior=p[start : start + count_i] if latent[y] else None,
            caption=caption,
            size=max(image.size) if direct else size,  # a strip is drawn to be read as it is
            correct=guess == y,
            like=size,
        )
        drawn.append((f"{items.names[i]}: {caption}", found))
    return drawn


def _places(shown: Samples, candidates: Candidates, i: int) -> tuple[Tensor, Tensor | None]:
    """(m, 4) where the candidates of sample i are in its image, and where the truth is, if that is known."""
    if isinstance(shown.items, CandidateSet):
        boxes = shown.items.places(i)
        return boxes, None if shown.h is None else boxes[int(shown.h[i])]
    assert candidates.boxes is not None
    start, count = int(candidates.offsets[i]), int(candidates.counts[i])
    return candidates.boxes[start : start + count], None if shown.items.boxes is None else shown.items.boxes[i]


@torch.no_grad()
def draw_learned(module: LatentModule, samples: Samples) -> list[tuple[str, Image.Image]]:
    """What w looks like, for data of which that can be drawn: the logos of a motif, by the windows where it is found in samples that have
    one, by its weights, and, where that is known, as it truly is."""
    items = samples.items
    if not isinstance(items, SequenceSet):
        return []
    samples = module.described(samples).to(module.device)
    p_w = module.prediction(samples.candidates)
    logos = []
    y_hat, h_hat = p_w.predict(samples.candidates)
    found = ((y_hat == BOUND) & (samples.y == BOUND)).nonzero().flatten()
    if len(found):
        shares = items.psi.letter_shares(samples.candidates, samples.candidates.rows(h_hat)[found])
        logos.append((f"motif in the {len(found)} sequences where it is rightly found", shares))
        if isinstance(p_w, LinearPrediction) and isinstance(p_w.joint, MotifMap):
            logos.append(("motif by its weights, as likely for these as can be", p_w.joint.letter_probabilities(p_w.w, shares)))
    if items.logo is not None:
        logos.append(("motif as it was planted", torch.from_numpy(items.logo)))
    return [(title, draw_logo(shares, title)) for title, shares in logos]


# What goes on beside the training: progress, images for TensorBoard, and how to go on after an interruption.

log = logging.getLogger(__name__)


class Progress(RichProgressBar):
    """Lightning's rich progress bar; the objective stands in it."""

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
