"""Backgrounds for the embedded sets: crops of the photographs that scikit-learn carries."""

from functools import cache

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

LARGEST = 427  # pixels: the height of the photographs


def photograph_crop(rng: np.random.Generator, side: int) -> np.ndarray:
    """(side, side) a random square of one of the photographs in grey, values in 0..1.

    >>> photograph_crop(np.random.default_rng(0), 64).shape
    (64, 64)
    """
    if not 1 <= side <= LARGEST:
        raise ValueError(f"canvas must lie in 1..{LARGEST}, the height of the background photographs, but it is {side}")
    photographs = _grey()
    photograph = photographs[rng.integers(len(photographs))]
    top, left = (int(rng.integers(0, length - side + 1)) for length in photograph.shape)
    return photograph[top : top + side, left : left + side].copy()


@cache
def _grey() -> list[np.ndarray]:
    return [np.asarray(Image.fromarray(p).convert("L"), np.float32) / 255 for p in load_sample_images().images]
