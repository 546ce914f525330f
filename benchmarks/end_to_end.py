"""What a step of learning end to end costs an image, over the number of its candidates, with and without checkpointing. One core.

A batch of photographs' size goes through EfficientNet-Lite0 and RoIAlign into the objective of DISC with the overlap loss, and back.
Every row is a process of its own. Printed are the seconds of the processor an image, the least of three steps after a first one, and the
megabytes an image by which the process grew at most in that first one (VmHWM of /proc; Linux).

    python benchmarks/end_to_end.py [candidates …, 20 100 500 2000] [--images 4] [--side 448]
"""

import argparse
import multiprocessing
import time

import torch
from record import record
from resident import forget_peak, held

from lvmdc import DISC, Candidates, OverlapLoss
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.lightning import AlternatingModule
from lvmdc.lightning.averaged import AveragedWeights
from lvmdc.lightning.batches import Batch
from lvmdc.losses import ExpectedLoss
from lvmdc.vision.features import RegionNetwork

CLASSES, STEPS = 6, 3


def random_boxes(count: int, width: int, height: int) -> torch.Tensor:
    """(count, 4) at least 32 pixels wide and high."""
    corner = torch.rand(count, 2) * torch.tensor([width - 32.0, height - 32.0])
    size = 32 + torch.rand(count, 2) * (torch.tensor([width - 32.0, height - 32.0]) - corner)
    return torch.cat([corner, corner + size], dim=1)


class Untrained(AlternatingModule):
    """The gradients of a step, without a trainer."""

    def manual_backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step_optimizers(self) -> None:
        """Only the gradients are measured."""


def step(count: int, images: int, side: int, checkpointing: bool) -> tuple[float, float]:
    """Seconds and megabytes an image of a step, forwards and backwards."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    height = 3 * side // 4 // 32 * 32
    network = RegionNetwork(weights=None, longer_side=side, checkpointing=checkpointing).train()
    pixels = [torch.randint(0, 256, (3, height, side), dtype=torch.uint8) for _ in range(images)]
    boxes = [random_boxes(count, side, height) for _ in range(images)]
    p_w, p_theta = (kind(torch.randn(CLASSES, network.n_features) / 100) for kind in (LinearPrediction, LogLinear))
    before, times = forget_peak(), []
    for attempt in range(1 + STEPS):
        started = time.process_time()
        features, _ = network(pixels, boxes)
        candidates = Candidates(features, [count] * images, torch.cat(boxes))
        loss = ExpectedLoss(OverlapLoss(), candidates, torch.arange(images) % CLASSES, CLASSES)
        batch = Batch(loss, torch.zeros(len(features)), torch.full((images,), -1), torch.arange(len(features)))
        module = Untrained(DISC(OverlapLoss(), C=1.0, J=0.001), warmup_epochs=0)
        module.weights = AveragedWeights(p_w, p_theta, decay=None)
        module.take = lambda index, batch=batch: batch
        module.training_step(torch.arange(images), 0)
        times.append(time.process_time() - started)
        if attempt == 0:
            grown = held("VmHWM") - before
    return min(times[1:]) / images, grown / images


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("candidates", nargs="*", type=int, default=[20, 100, 500, 2000])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--side", type=int, default=448)
    given = parser.parse_args()
    print(f"{given.images} images of {given.side} × {3 * given.side // 4 // 32 * 32} pixels in a batch")
    print(f"{'candidates':>10}{'CPU s':>10}{'MB':>8}   {'checkpointing: CPU s':>20}{'MB':>8}")
    step(2, 1, 64, False)  # what is loaded and compiled once
    for count in given.candidates:
        row = f"{count:>10}"
        for checkpointing in (False, True):
            with multiprocessing.get_context("fork").Pool(1) as pool:
                seconds, megabytes = pool.apply(step, (count, given.images, given.side, checkpointing))
            record(candidates=count, checkpointing=checkpointing, seconds=seconds, megabytes=megabytes)
            row += f"{seconds:>{23 if checkpointing else 10}.2f}{megabytes:>8.0f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
