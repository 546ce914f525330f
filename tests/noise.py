"""A small random problem as data of a run, and a callback that holds a run until a test has interrupted it."""

import time
from pathlib import Path

import torch
from learners.problems import problem
from PIL import Image
from pytorch_lightning.callbacks import Callback

from lvmdc.samples import CandidateSet


class Noise(CandidateSet):
    """In float64, so that the order of a sum shows in the last digits alone.

    With a `signal` of 6 no score is near another, and the last digits decide nothing.
    """

    def __init__(self, phi=0, signal=2.0):
        found = problem(5, n=35, d=6, most=7, phi=phi, signal=signal)
        self.known = found.candidates
        super().__init__(["a", "b", "c"], found.y, found.h)

    def candidates(self):
        return self.known

    def subset(self, index):
        part = super().subset(index)
        part.known = self.known.subset(index)
        return part

    def image(self, i):
        return Image.new("RGB", (16, 16))

    def places(self, i):
        return self.known.subset(torch.tensor([i])).boxes


class Hold(Callback):
    """Waits inside the first batch of the second epoch until the file `until` exists. By then the first checkpoint is written."""

    def __init__(self, until):
        self.until = Path(until)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        deadline = time.monotonic() + 300
        while trainer.current_epoch == 1 and not self.until.exists():
            assert time.monotonic() < deadline, f"no test wrote {self.until}"
            time.sleep(0.01)


def hold_until(file):
    """Overrides that add the callback to a run."""
    return ["+callbacks.hold._target_=noise.Hold", f"+callbacks.hold.until='{file}'"]
