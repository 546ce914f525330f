"""Digits that were turned by an unknown angle: embedded handwritten digits, and MNIST from its idx files."""

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.samples import CandidateSet
from lvmdc.storage.files import read_bytes

TILE = 40  # pixels of one candidate in a drawing
ROTATIONS = tuple(range(-60, 61, 12))  # degrees: eleven
CANVAS, DIGIT = 20, 14  # pixels: the digit keeps its corners when it is turned
PARTS = ("train", "t10k")  # to train with, to test with


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
        division: tuple[ArrayLike, ArrayLike] | None = None,
        rotations: Sequence[float] = ROTATIONS,
    ):
        super().__init__(classes, y, h, names, groups, division)
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
    from sklearn.datasets import load_digits

    digits = checked_pair(pair)
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    data = load_digits()
    images, h, y, groups = [], [], [], []
    for k, digit in enumerate(digits):
        own = np.flatnonzero(data.target == digit)
        chosen = np.resize(np.random.default_rng([seed, digit]).permutation(own), per_class)
        upright = np.zeros((per_class, CANVAS, CANVAS), np.float32)
        edge = (CANVAS - DIGIT) // 2
        for i, which in enumerate(chosen):
            scaled = cv2.resize((data.images[which] / 16).astype(np.float32), (DIGIT, DIGIT), interpolation=cv2.INTER_CUBIC)
            upright[i, edge : edge + DIGIT, edge : edge + DIGIT] = scaled.clip(0, 1)
        seen, angle = turned_at_random(upright, seed * 10 + digit)
        images.append(seen)
        h.append(angle)
        y += [k] * per_class
        groups.append(chosen)
    names = [f"digit {digits[k]} number {i % per_class}" for i, k in enumerate(y)]
    return RotationSet(np.concatenate(images), [str(d) for d in digits], y, np.concatenate(h), names, np.concatenate(groups))


def mnist(path: str | Path, pair: Sequence[int] = (1, 7), seed: int = 0, per_class: int | None = 1000) -> RotationSet:
    """The digits of two classes (or more) from `path/train-images-idx3-ubyte` and the other three files, plain or `.gz`, with its split.

    Each is turned by one of eleven angles from −60° to 60°, as in `rotated_digits`.

    Args:
        per_class: the number of each class from each part, the first ones; None: all.

    >>> mnist("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: nowhere must hold train-images-idx3-ubyte, or the same with .gz, but it does not
    """
    digits = checked_pair(pair)
    if per_class is not None and per_class < 1:
        raise ValueError(f"per_class must be at least 1, or null for all, but it is {per_class}")
    pixels, labels, names, sizes = [], [], [], []
    for part in PARTS:
        images, target = _part(Path(path), part)
        chosen = np.sort(np.concatenate([np.flatnonzero(target == digit)[:per_class] for digit in digits]))
        if len(chosen) == 0:
            raise ValueError(f"{path} must hold digits {digits}, but {part}-labels-idx1-ubyte names none of them")
        pixels.append(images[chosen].astype(np.float32) / 255)
        labels.append(target[chosen])
        names += [f"{part} {i}" for i in chosen]
        sizes.append(len(chosen))
    seen, h = turned_at_random(np.concatenate(pixels), seed)
    y = [digits.index(int(label)) for label in np.concatenate(labels)]
    division = np.arange(sizes[0]), sizes[0] + np.arange(sizes[1])
    return RotationSet(seen, [str(d) for d in digits], y, h, names, None, division)


def read_idx(path: str | Path) -> np.ndarray:
    """The array of an idx file of bytes, plain or `.gz`; a truncated one, or one of another kind, is refused by name.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each of them as four bytes, highest first, then the data.
    """
    path = Path(path)
    data = read_bytes(path)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} must be an idx file of unsigned bytes, which begins with 0, 0, 8, but it begins with {list(data[:3])}")
    if not 1 <= data[3] <= 4:
        raise ValueError(f"{path} must have one to four dimensions, but it has {data[3]}")
    head = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[k : k + 4], "big") for k in range(4, head, 4))
    if len(data) != head + prod(shape):
        raise ValueError(f"{path} must hold {prod(shape)} bytes for its shape {shape}, but it holds {max(0, len(data) - head)}")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


def _part(root: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for kind, dimensions in (("images", 3), ("labels", 1)):
        stem = f"{part}-{kind}-idx{dimensions}-ubyte"
        file = next((f for f in (root / stem, root / f"{stem}.gz") if f.is_file()), None)
        if file is None:
            raise FileNotFoundError(f"{root} must hold {stem}, or the same with .gz, but it does not")
        array = read_idx(file)
        if array.ndim != dimensions or (dimensions == 3 and not 2 <= array.shape[1] == array.shape[2] <= 1024):
            expected = "(n, s, s) with s from 2 to 1024" if dimensions == 3 else "(n,)"
            raise ValueError(f"{file} must have shape {expected}, but it has shape {array.shape}")
        found.append(array)
    images, labels = found
    if len(images) != len(labels):
        raise ValueError(f"{file} must have one label for each of the {len(images)} {part} images, but it has {len(labels)}")
    if len(labels) and labels.max() > 9:
        raise ValueError(f"{file} must hold digits from 0 to 9, but it holds {labels.max()}")
    return images, labels
