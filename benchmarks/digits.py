"""The embedded digits as the benchmarks use them: HOG windows on a grid, with the fields of `Mammals`."""

import torch

from lvmdc.priors import Prior
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.metrics import true_candidate
from lvmdc.vision.proposals import WindowGrid


class Digits:
    """Six digits in clutter, `per_class` of each: candidates, labels, and the window nearest to the true box.

    With a `prior` the candidates have its log weights."""

    def __init__(self, per_class: int = 30, seed: int = 0, prior: Prior | None = None) -> None:
        images = cluttered_digits(seed=seed, per_class=per_class)
        assert images.boxes is not None
        self.candidates = build_candidates(images, WindowGrid(), HOG(), cache_dir=None, progress=False, prior=prior)
        self.y: torch.Tensor = images.y
        self.h: torch.Tensor = true_candidate(self.candidates, images.boxes)[0]
