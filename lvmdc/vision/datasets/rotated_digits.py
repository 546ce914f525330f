"""Embedded handwritten digits that were turned by an unknown angle."""

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.samples import CandidateSet
from lvmdc.vision.datasets.digits import handwritten

TILE = 40  # pixels of one candidate in a drawing
ROTATIONS = tuple(range(-60, 61, 12))  # degrees: eleven
CANVAS, DIGIT = 20, 14  # pixels: the digit keeps its corners when it is turned


def turned(images: np.ndarray, degrees: float | np.ndarray) -> np.ndarray:
    """Square images (n, s, s) turned counter-clockwise about their middle, each by its own angle or all by one, filled with black.

    >>> turned(np.array([[[1.0, 0.0], [0.0, 0.0]]], np.float32), 90).round().tolist()
    [[[0.0, 0.0], [1.0, 0.0]]]
    """
    import cv2

    side = images.shape[1]
    middle = ((side - 1) / 2, (side - 1) / 2)
    angles = np.broadcast_to(degrees, len(images)).astype(float)
    matrices = {angle: cv2.getRotationMatrix2D(middle, angle, 1.0) for angle in set(angles.tolist())}
    out = np.empty_like(images)
    for i, angle in enumerate(angles.tolist()):
        out[i] = cv2.warpAffine(images[i], matrices[angle], (side, side), flags=cv2.INTER_LINEAR)
    return out


class RotationSet(CandidateSet):
    """Images x with their class y; h is which of the angles the image was turned by.

    w·Ψ(x, y, h) = w_y·R_h(x) / ‖R_h(x)‖, where R_h turns an image back by the angle h: the features of candidate h are the pixels of the
    image turned back by that angle, as a vector of length one. The right angle makes it upright, so that one weight per pixel and class
    suffices.

    Args:
        images: (n, s, s) grey values in 0..1, as observed.
        rotations: degrees, counter-clockwise.

    Other arguments are those of `CandidateSet`.

    >>> RotationSet(np.ones((2, 4, 4)), ["1", "7"], [0, 1]).candidates()
    Candidates(2 samples, 22 candidates of 16 features, torch.float32, cpu)
    """

    per_sample = ("images",)

    def __init__(
        self,
        images: np.ndarray,
        classes: Sequence[str],
        y: ArrayLike,
        h: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        rotations: Sequence[float] = ROTATIONS,
    ):
        super().__init__(classes, y, h, names, groups)
        if images.ndim != 3 or images.shape[1] != images.shape[2] or len(images) != len(self):
            raise ValueError(f"images must have shape ({len(self)}, s, s), but it has shape {images.shape}")
        self.images, self.rotations = images.astype(np.float32), list(rotations)

    def candidates(self) -> Candidates:
        n, side, m = len(self), self.images.shape[1], len(self.rotations)
        features = np.empty((n, m, side * side), np.float32)
        for j, angle in enumerate(self.rotations):
            features[:, j] = turned(self.images, -angle).reshape(n, -1)
        features /= np.maximum(np.linalg.norm(features, axis=2, keepdims=True), 1e-12)
        return Candidates(features.reshape(n * m, -1), [m] * n)

    def image(self, i: int) -> Image.Image:
        sheet = Image.new("L", (TILE * len(self.rotations), TILE))
        for j, angle in enumerate(self.rotations):
            pixels = np.rint(255 * turned(self.images[i : i + 1], -angle)[0].clip(0, 1)).astype(np.uint8)
            sheet.paste(Image.fromarray(pixels).resize((TILE, TILE), Image.Resampling.BICUBIC), (TILE * j, 0))
        return sheet.convert("RGB")

    def places(self, i: int) -> Tensor:
        left = TILE * torch.arange(len(self.rotations), dtype=torch.float32)
        return torch.stack([left, torch.zeros_like(left), left + TILE, torch.full_like(left, TILE)], dim=1)


def turned_at_random(images: np.ndarray, seed: int, rotations: Sequence[float] = ROTATIONS) -> tuple[np.ndarray, np.ndarray]:
    """Each image (s, s) turned by one of the angles, and which one it was; image i is turned in the same way whatever n is."""
    h = np.array([np.random.default_rng([seed, i]).integers(len(rotations)) for i in range(len(images))])
    return turned(images, np.asarray(rotations, float)[h]), h


def checked_pair(pair: Sequence[int]) -> list[int]:
    """The digits to tell apart, refused if they are not different digits."""
    digits = list(pair)
    if len(digits) < 2 or len(set(digits)) != len(digits) or not all(isinstance(d, int) and 0 <= d <= 9 for d in digits):
        raise ValueError(f"pair must be two or more different digits in 0..9, such as [1,7], but it is {digits}")
    return digits


def rotated_digits(pair: Sequence[int] = (1, 7), seed: int = 0, per_class: int = 120) -> RotationSet:
    """scikit-learn's handwritten digits of two classes (or more), each turned by one of eleven angles from −60° to 60°.

    The digit is known, the angle is not. The 8 × 8 pixels are enlarged to 14 × 14 in the middle of 20 × 20. With more samples than a class
    has digits, digits are repeated, turned by another angle; `groups` says which samples share one.

    >>> digits = rotated_digits(per_class=3)
    >>> digits, digits.h.shape
    (RotationSet(6 samples of 2 classes), torch.Size([6]))
    """
    import cv2

    digits = checked_pair(pair)
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    every, which_digit = handwritten()
    images, h, y, groups = [], [], [], []
    for k, digit in enumerate(digits):
        own = np.flatnonzero(which_digit == digit)
        chosen = np.resize(np.random.default_rng([seed, digit]).permutation(own), per_class)
        upright = np.zeros((per_class, CANVAS, CANVAS), np.float32)
        edge = (CANVAS - DIGIT) // 2
        for i, which in enumerate(chosen):
            scaled = cv2.resize(every[which], (DIGIT, DIGIT), interpolation=cv2.INTER_CUBIC)
            upright[i, edge : edge + DIGIT, edge : edge + DIGIT] = scaled.clip(0, 1)
        seen, angle = turned_at_random(upright, seed * 10 + digit)
        images.append(seen)
        h.append(angle)
        y += [k] * per_class
        groups.append(chosen)
    names = [f"digit {digits[k]} number {i % per_class}" for i, k in enumerate(y)]
    return RotationSet(np.concatenate(images), [str(d) for d in digits], y, np.concatenate(h), names, np.concatenate(groups))
