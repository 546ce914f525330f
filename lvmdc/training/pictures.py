"""What the model sees: a picture with its true box, its predicted box and the posterior over boxes."""

from __future__ import annotations

import torch
from PIL import Image

from lvmdc.reporting.drawing import draw_detection
from lvmdc.training.data import Samples
from lvmdc.training.module import LatentModule


def spread(n: int, count: int) -> torch.Tensor:
    """`count` indices evenly over 0..n−1: samples stand by class, so this shows all of them.

    >>> spread(10, 3)
    tensor([0, 4, 9])
    """
    return torch.linspace(0, n - 1, min(n, count)).long()


def draw_samples(module: LatentModule, samples: Samples, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the samples as the model sees them, each with its name."""
    shown = samples.subset(spread(len(samples), count)).to(module.device)
    y_hat, h_hat = module.prediction(shown.candidates).predict(shown.candidates)
    p = module.posterior(shown.candidates, shown.y).cpu()
    candidates, pictures = shown.candidates.to("cpu"), shown.pictures
    assert candidates.boxes is not None
    predicted = candidates.boxes[candidates.rows(h_hat.cpu())]
    drawn = []
    for i, (start, count_i) in enumerate(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True)):
        own = slice(start, start + count_i)
        truth = None if pictures.boxes is None else pictures.boxes[i]
        right = bool(y_hat[i] == shown.y[i])
        name, guess = pictures.classes[int(shown.y[i])], pictures.classes[int(y_hat[i])]
        caption = name if right else f"{name}, taken for {guess}"
        image = draw_detection(pictures.image(i), predicted[i], truth, candidates.boxes[own], p[own], caption, size, right)
        drawn.append((f"{pictures.names[i]}: {caption}", image))
    return drawn
