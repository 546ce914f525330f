"""How the losses grow with |H|: one sample with 10 to 1,000,000 boxes, as if all boxes of an image were candidates. One core.

Expected loss (7) of every (y, h) for two classes, self-diversity (8) and its gradient in P_θ: the 0/1 loss by its closed form; the overlap
loss by the double sum in blocks, with a budget of 1 GB, beyond which Δ is recomputed on each of the three uses; and the overlap loss
from draws. Memory is the growth of the peak beyond the candidates, each in a process of its own.

    python benchmarks/latent_sizes.py [largest exact overlap, 30000] [draws, 100]
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np
import psutil
import torch

from lvmdc import Candidates, OverlapLoss, ZeroOneLoss, diversity
from lvmdc.distributions import Conditional, draw
from lvmdc.distributions.sampled import expected_loss
from lvmdc.losses import ExpectedLoss

SIZES = (10, 100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
CLASSES, FEATURES, BUDGET = 2, 16, 1 << 30


def sample(size: int) -> tuple[Candidates, torch.Tensor, torch.Tensor]:
    """One sample with boxes in an image of 640 × 480, its class and scores of P_θ that gather about one of them."""
    rng = np.random.default_rng(0)
    corner, extent = rng.uniform(0, (600, 440), (size, 2)), rng.uniform(20, 200, (size, 2))
    boxes = np.concatenate([corner, np.minimum(corner + extent, (640, 480))], axis=1).astype(np.float32)
    scores = -0.01 * np.abs(boxes - boxes[0]).sum(axis=1)
    return Candidates(np.zeros((size, FEATURES), np.float32), [size], boxes), torch.tensor([0]), torch.from_numpy(scores)


def measure(method: str, size: int, draws: int) -> dict[str, float]:
    torch.set_num_threads(1)
    candidates, y, scores = sample(size)
    scores.requires_grad_()
    before, started = psutil.Process().memory_info().rss, time.process_time()
    P = Conditional(candidates, y, scores.softmax(dim=0))
    if method == "draws":
        Q = draw(P, draws, torch.Generator().manual_seed(0))
        expected, spread = expected_loss(Q, OverlapLoss(), CLASSES), diversity(Q, Q, OverlapLoss())
    else:
        bound = ExpectedLoss(ZeroOneLoss() if method == "zero_one" else OverlapLoss(), candidates, y, CLASSES, BUDGET)
        with torch.no_grad():
            expected = bound.expected_loss(P.p)
        spread = bound.diversity(P.p)
    spread.sum().backward()
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes on Linux
    mean = float((P.p * expected[:, 0]).sum())  # which is the diversity again, from the expected loss
    return {"seconds": seconds, "megabytes": max(0, peak - before) / 2**20, "diversity": float(spread), "mean": mean}


def apart(method: str, size: int, draws: int) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "one", method, str(size), str(draws)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    exact_up_to, draws = (int(a) for a in (*sys.argv[1:3], *(30_000, 100)[len(sys.argv) - 1 :]))
    print(f"{'|H|':>9}{'0/1 s':>9}{'MB':>7}{'overlap s':>11}{'MB':>7}{f'{draws} draws s':>14}{'MB':>7}{'overlap H':>11}{'from draws':>12}")
    for size in SIZES:
        closed, sampled = apart("zero_one", size, draws), apart("draws", size, draws)
        exact = apart("overlap", size, draws) if size <= exact_up_to else None
        middle = f"{exact['seconds']:>11.2f}{exact['megabytes']:>7.0f}" if exact else f"{'–':>11}{'–':>7}"
        row = (
            f"{size:>9,}{closed['seconds']:>9.3f}{closed['megabytes']:>7.0f}{middle}{sampled['seconds']:>14.2f}{sampled['megabytes']:>7.0f}"
        )
        print(f"{row}{exact['diversity'] if exact else float('nan'):>11.4f}{sampled['diversity']:>12.4f}", flush=True)


if __name__ == "__main__":
    main()
