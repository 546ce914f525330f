"""Embedded object detection: real handwritten digits somewhere in clutter."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from lvmdc.data.photographs import photograph_crop
from lvmdc.data.pictures import PictureSet


def cluttered_digits(
    seed: int = 0,
    per_class: int = 45,
    digits: Sequence[int] = (0, 2, 3, 4, 6, 7),
    canvas: int = 64,
    digit_size: tuple[int, int] = (28, 35),
    background: float = 0.35,
    fragments: int = 4,
    fragment_size: int = 12,
    noise: float = 0.03,
) -> PictureSet:
    """Pictures that each hold one of scikit-learn's handwritten digits, labelled with the digit but not with its place.

    The digit is scaled to a size within `digit_size` (both ends included) and put at a random place on `background` × a grey
    crop of a scikit-learn photograph, over `fragments` pieces cut from digits of other classes, with Gaussian `noise` (its
    standard deviation, white being 1). The defaults lie where the methods differ; many more fragments or a larger canvas
    defeat even the supervised model.

    The true box is the scaled 8×8 square of the digit, not the ink in it: strokes fill the height of the square but not its width, so
    the square is what agrees best with square windows of about its size.

    Picture i of a class is the same whatever `per_class` is. With more pictures than a class has digits, digits come again in
    another place; `groups` tells which pictures share one.

    >>> pictures = cluttered_digits(per_class=2)
    >>> pictures, pictures.image(0).size, pictures.boxes[0].tolist()
    (PictureSet(12 pictures of 6 classes, boxes, groups), (64, 64), [28.0, 26.0, 56.0, 54.0])
    """
    _check(per_class, digits, canvas, digit_size, fragments, fragment_size)
    strokes, labels = handwritten()
    sources, names, y, boxes, groups = [], [], [], [], []
    for k, digit in enumerate(digits):
        own, others = np.flatnonzero(labels == digit), np.flatnonzero(labels != digit)
        order = np.random.default_rng([seed, digit]).permutation(own)
        for i in range(per_class):
            rng = np.random.default_rng([seed, digit, i])
            which = order[i % len(order)]
            picture = background * photograph_crop(rng, canvas)
            for other in rng.choice(others, fragments):
                piece = scaled(strokes[other], int(rng.integers(digit_size[0], digit_size[1] + 1)))
                left, top = rng.integers(0, len(piece) - fragment_size + 1, 2)
                paste(picture, piece[top : top + fragment_size, left : left + fragment_size], rng)
            size = int(rng.integers(digit_size[0], digit_size[1] + 1))
            x, top = paste(picture, scaled(strokes[which], size), rng)
            picture += noise * rng.standard_normal(picture.shape)
            sources.append(np.round(255 * picture.clip(0, 1)).astype(np.uint8))
            names.append(f"digit {digit} number {i}")
            y.append(k)
            boxes.append([x, top, x + size, top + size])
            groups.append(int(which))
    return PictureSet(sources, [str(d) for d in digits], y, np.array(boxes, np.float32), names, groups)


def _check(per_class: int, digits: Sequence[int], canvas: int, digit_size: tuple[int, int], fragments: int, fragment_size: int) -> None:
    if not digits or len(set(digits)) != len(digits) or not all(0 <= d <= 9 for d in digits):
        raise ValueError(f"digits must be different numbers in 0..9, but it is {tuple(digits)}")
    if per_class < 1:
        raise ValueError(f"per_class must be at least 1, but it is {per_class}")
    if not 1 <= digit_size[0] <= digit_size[1] <= canvas:
        raise ValueError(f"digit_size must be (least, most) with 1 ≤ least ≤ most ≤ canvas = {canvas}, but it is {tuple(digit_size)}")
    if fragments < 0:
        raise ValueError(f"fragments must not be negative, but it is {fragments}")
    if not 1 <= fragment_size <= digit_size[0]:
        raise ValueError(f"fragment_size must lie in 1..{digit_size[0]}, the least digit size, but it is {fragment_size}")


def scaled(stroke: np.ndarray, size: int) -> np.ndarray:
    """(size, size) a digit of 8×8 numbers in 0..1, enlarged.

    >>> scaled(handwritten()[0][0], 28).shape
    (28, 28)
    """
    return np.asarray(Image.fromarray(stroke).resize((size, size), Image.Resampling.BICUBIC)).clip(0, 1)


def paste(picture: np.ndarray, piece: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    """Lay `piece` over `picture` at a random place, the brighter of the two winning; its left and top."""
    left = int(rng.integers(0, picture.shape[1] - piece.shape[1] + 1))
    top = int(rng.integers(0, picture.shape[0] - piece.shape[0] + 1))
    lay_over(picture, piece, left, top)
    return left, top


def lay_over(picture: np.ndarray, piece: np.ndarray, left: int, top: int) -> None:
    """Lay `piece` over `picture` there, the brighter of the two winning.

    >>> ground = np.zeros((2, 2))
    >>> lay_over(ground, np.ones((1, 1)), left=1, top=0)
    >>> ground.tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    window = picture[top : top + piece.shape[0], left : left + piece.shape[1]]
    np.maximum(window, piece, out=window)


@cache
def handwritten() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 8, 8) scikit-learn's handwritten digits, values in 0..1, and (1797,) which digit each is.

    >>> handwritten()[1][:3].tolist()
    [0, 1, 2]
    """
    data = load_digits()
    return (data.images / 16).astype(np.float32), data.target
