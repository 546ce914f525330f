"""Embedded digit recognition: real handwritten digits, each turned by an unknown angle."""

from collections.abc import Sequence

import cv2
import numpy as np
from sklearn.datasets import load_digits

from lvmdc.data.rotations import RotationSet, checked_pair, turned_at_random

CANVAS, DIGIT = 20, 14  # pixels: the digit keeps its corners when it is turned


def rotated_digits(pair: Sequence[int] = (1, 7), seed: int = 0, per_class: int = 120) -> RotationSet:
    """scikit-learn's handwritten digits of two classes (or more), each turned by one of eleven angles from −60° to 60°.

    Which digit it is, is told; by which angle it was turned, is not. The 8 × 8 pixels are enlarged to 14 × 14 in the middle of 20 × 20.
    With more samples than a class has digits, digits come again, turned by another angle; `groups` tells which samples share one.

    >>> digits = rotated_digits(per_class=3)
    >>> digits, digits.h.shape
    (RotationSet(6 samples of 2 classes), torch.Size([6]))
    """
    digits = checked_pair(pair)
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    data = load_digits()
    pictures, h, y, groups = [], [], [], []
    for k, digit in enumerate(digits):
        own = np.flatnonzero(data.target == digit)
        chosen = np.resize(np.random.default_rng([seed, digit]).permutation(own), per_class)
        upright = np.zeros((per_class, CANVAS, CANVAS), np.float32)
        edge = (CANVAS - DIGIT) // 2
        for i, which in enumerate(chosen):
            scaled = cv2.resize((data.images[which] / 16).astype(np.float32), (DIGIT, DIGIT), interpolation=cv2.INTER_CUBIC)
            upright[i, edge : edge + DIGIT, edge : edge + DIGIT] = scaled.clip(0, 1)
        seen, angle = turned_at_random(upright, seed * 10 + digit)
        pictures.append(seen)
        h.append(angle)
        y += [k] * per_class
        groups.append(chosen)
    names = [f"digit {digits[k]} number {i % per_class}" for i, k in enumerate(y)]
    return RotationSet(np.concatenate(pictures), [str(d) for d in digits], y, np.concatenate(h), names, np.concatenate(groups))
