"""Pictures that were turned by an angle nobody tells."""

from collections.abc import Sequence
from typing import Self

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates, as_tensor
from lvmdc.data.candidate_set import CandidateSet

TILE = 40  # pixels of one candidate in a drawing
ROTATIONS = tuple(range(-60, 61, 12))  # degrees: eleven


def turned(pictures: np.ndarray, degrees: float | np.ndarray) -> np.ndarray:
    """Square pictures (n, s, s) turned counter-clockwise about their middle, each by its own angle or all by one; black comes in.

    >>> turned(np.array([[[1.0, 0.0], [0.0, 0.0]]], np.float32), 90).round().tolist()
    [[[0.0, 0.0], [1.0, 0.0]]]
    """
    side = pictures.shape[1]
    middle = ((side - 1) / 2, (side - 1) / 2)
    angles = np.broadcast_to(degrees, len(pictures)).astype(float)
    matrices = {angle: cv2.getRotationMatrix2D(middle, angle, 1.0) for angle in set(angles.tolist())}
    out = np.empty_like(pictures)
    for i, angle in enumerate(angles.tolist()):
        out[i] = cv2.warpAffine(pictures[i], matrices[angle], (side, side), flags=cv2.INTER_LINEAR)
    return out


class RotationSet(CandidateSet):
    """Pictures x with their class y; h is which of the angles the picture was turned by.

    w·Ψ(x, y, h) = w_y·R_h(x) / ‖R_h(x)‖, where R_h turns a picture back by the angle h: the features of candidate h are the pixels of the
    picture turned back by that angle, as a vector of length one. Turned back by the right angle it stands upright, and one weight a pixel
    and class will do.

    Args:
        pictures: (n, s, s) grey values in 0..1, as they are seen.
        rotations: degrees, counter-clockwise.

    What else is as in `CandidateSet`.

    >>> RotationSet(np.ones((2, 4, 4)), ["1", "7"], [0, 1]).candidates()
    Candidates(2 samples, 22 candidates of 16 features, torch.float32, cpu)
    """

    def __init__(
        self,
        pictures: np.ndarray,
        classes: Sequence[str],
        y: ArrayLike,
        h: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        division: tuple[ArrayLike, ArrayLike] | None = None,
        rotations: Sequence[float] = ROTATIONS,
    ):
        super().__init__(classes, y, h, names, groups, division)
        if pictures.ndim != 3 or pictures.shape[1] != pictures.shape[2] or len(pictures) != len(self):
            raise ValueError(f"pictures must have shape ({len(self)}, s, s), but it has shape {pictures.shape}")
        self.pictures, self.rotations = pictures.astype(np.float32), list(rotations)

    def candidates(self) -> Candidates:
        n, side, m = len(self), self.pictures.shape[1], len(self.rotations)
        features = np.empty((n, m, side * side), np.float32)
        for j, angle in enumerate(self.rotations):
            features[:, j] = turned(self.pictures, -angle).reshape(n, -1)
        features /= np.maximum(np.linalg.norm(features, axis=2, keepdims=True), 1e-12)
        return Candidates(features.reshape(n * m, -1), [m] * n)

    def image(self, i: int) -> Image.Image:
        sheet = Image.new("L", (TILE * len(self.rotations), TILE))
        for j, angle in enumerate(self.rotations):
            pixels = np.rint(255 * turned(self.pictures[i : i + 1], -angle)[0].clip(0, 1)).astype(np.uint8)
            sheet.paste(Image.fromarray(pixels).resize((TILE, TILE), Image.Resampling.BICUBIC), (TILE * j, 0))
        return sheet.convert("RGB")

    def places(self, i: int) -> Tensor:
        left = TILE * torch.arange(len(self.rotations), dtype=torch.float32)
        return torch.stack([left, torch.zeros_like(left), left + TILE, torch.full_like(left, TILE)], dim=1)

    def subset(self, index: ArrayLike) -> Self:
        part = super().subset(index)
        part.pictures = self.pictures[as_tensor(index).reshape(-1).numpy()]
        return part


def turned_at_random(pictures: np.ndarray, seed: int, rotations: Sequence[float] = ROTATIONS) -> tuple[np.ndarray, np.ndarray]:
    """Each picture (s, s) turned by one of the angles, and which one it was; picture i is turned alike whatever n is.

    >>> turned_at_random(np.ones((3, 4, 4), np.float32), seed=0)[1].shape
    (3,)
    """
    h = np.array([np.random.default_rng([seed, i]).integers(len(rotations)) for i in range(len(pictures))])
    return turned(pictures, np.asarray(rotations, float)[h]), h


def checked_pair(pair: Sequence[int]) -> list[int]:
    """The digits to tell apart, refused if they are not different digits.

    >>> checked_pair((1, 7))
    [1, 7]
    """
    digits = list(pair)
    if len(digits) < 2 or len(set(digits)) != len(digits) or not all(isinstance(d, int) and 0 <= d <= 9 for d in digits):
        raise ValueError(f"pair must be two or more different digits in 0..9, such as [1,7], but it is {digits}")
    return digits
