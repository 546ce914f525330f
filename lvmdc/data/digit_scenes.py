"""Embedded weakly supervised detection: several handwritten digits in a picture, of which only the classes are told."""

from collections.abc import Sequence

import numpy as np
import torch

from lvmdc.data.cluttered_digits import handwritten, lay_over, paste, scaled
from lvmdc.data.photographs import photograph_crop
from lvmdc.data.scenes import SceneSet
from lvmdc.labelled_boxes import LabelledBoxes

TRIES = 200  # places that are tried for a digit before its picture does without it


def digit_scenes(
    seed: int = 0,
    n_pictures: int = 200,
    digits: Sequence[int] = (0, 2, 3, 4, 6, 7),
    most: int = 4,
    canvas: int = 96,
    digit_size: tuple[int, int] = (28, 35),
    background: float = 0.35,
    fragments: int = 6,
    fragment_size: int = 12,
    noise: float = 0.03,
) -> SceneSet:
    """Pictures that each hold 1 to `most` of scikit-learn's handwritten digits, labelled with which they show, not how many nor where.

    The classes of a picture's digits are drawn independently, so that a class may come twice. Digits do not overlap; the ground is that of
    `cluttered_digits`: `background` × a grey crop of a photograph, `fragments` pieces cut from digits of other classes than the
    picture's own, Gaussian `noise`. The true box of a digit is its scaled 8×8 square.

    Every handwritten digit is used once at most, so that no test picture repeats one of the training; a set that asks for more is refused.
    Picture i is the same whatever `n_pictures` is.

    >>> scenes = digit_scenes(n_pictures=3)
    >>> scenes, [scenes.shown(i) for i in range(3)]
    (SceneSet(3 pictures of 6 classes, 5 boxes), [['3', '7'], ['7'], ['4', '6']])
    """
    _check(n_pictures, digits, most, canvas, digit_size, fragments, fragment_size)
    strokes, labels = handwritten()
    unused = {d: list(np.random.default_rng([seed, d]).permutation(np.flatnonzero(labels == d))) for d in digits}
    sources, picture, label, boxes = [], [], [], []
    for i in range(n_pictures):
        rng = np.random.default_rng([seed, 10, i])
        shown = rng.choice(len(digits), size=int(rng.integers(1, most + 1)))
        ground = background * photograph_crop(rng, canvas)
        others = np.flatnonzero(~np.isin(labels, [digits[k] for k in shown]))
        for other in rng.choice(others, fragments):
            piece = scaled(strokes[other], int(rng.integers(digit_size[0], digit_size[1] + 1)))
            left, top = rng.integers(0, len(piece) - fragment_size + 1, 2)
            paste(ground, piece[top : top + fragment_size, left : left + fragment_size], rng)
        for box, k in zip(_places(rng, len(shown), canvas, digit_size), shown, strict=False):
            if not unused[digits[k]]:
                raise ValueError(f"n_pictures must be smaller: the handwritten {digits[k]}s are used up after {i} pictures")
            lay_over(ground, scaled(strokes[unused[digits[k]].pop()], box[2] - box[0]), box[0], box[1])
            picture.append(i)
            label.append(int(k))
            boxes.append(box)
        ground += noise * rng.standard_normal(ground.shape)
        sources.append(np.round(255 * ground.clip(0, 1)).astype(np.uint8))
    truth = LabelledBoxes(picture, label, torch.tensor(boxes, dtype=torch.float32))
    return SceneSet.of_boxes(sources, [str(d) for d in digits], truth, [f"scene {i}" for i in range(n_pictures)])


def _places(rng: np.random.Generator, count: int, canvas: int, digit_size: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Squares that do not overlap; fewer than `count` where there is no room, never none."""
    found: list[tuple[int, int, int, int]] = []
    for _ in range(count):
        for _ in range(TRIES):
            size = int(rng.integers(digit_size[0], digit_size[1] + 1))
            x, y = (int(v) for v in rng.integers(0, canvas - size + 1, 2))
            if all(x >= b[2] or y >= b[3] or x + size <= b[0] or y + size <= b[1] for b in found):
                found.append((x, y, x + size, y + size))
                break
    return found


def _check(
    n_pictures: int, digits: Sequence[int], most: int, canvas: int, digit_size: tuple[int, int], fragments: int, fragment_size: int
) -> None:
    if len(digits) < 2 or len(set(digits)) != len(digits) or not all(0 <= d <= 9 for d in digits):
        raise ValueError(f"digits must be two or more different numbers in 0..9, but it is {tuple(digits)}")
    for name, value in (("n_pictures", n_pictures), ("most", most)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, but it is {value}")
    if not 1 <= digit_size[0] <= digit_size[1] <= canvas:
        raise ValueError(f"digit_size must be (least, most) with 1 ≤ least ≤ most ≤ canvas = {canvas}, but it is {tuple(digit_size)}")
    if fragments < 0:
        raise ValueError(f"fragments must not be negative, but it is {fragments}")
    if not 1 <= fragment_size <= digit_size[0]:
        raise ValueError(f"fragment_size must lie in 1..{digit_size[0]}, the least digit size, but it is {fragment_size}")
