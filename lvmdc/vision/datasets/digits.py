"""Embedded detection: real handwritten digits in clutter, one or several per image, on crops of the photographs of scikit-learn."""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lvmdc.boxes import LabelledBoxes
from lvmdc.vision.datasets.images import ImageSet

LARGEST = 427  # pixels: the height of the photographs
TRIES = 200  # random places that are tried for a digit before it is left out


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
    files = (_scikit_learn_file("images", name) for name in ("china.jpg", "flower.jpg"))
    return [np.asarray(Image.open(file).convert("RGB").convert("L"), np.float32) / 255 for file in files]


def _scikit_learn_file(folder: str, name: str) -> Path:
    """A file of `sklearn.datasets`, found without importing scikit-learn, which takes nearly as long as torch."""
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0], "datasets", folder, name)


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
) -> ImageSet:
    """Images that each hold one of scikit-learn's handwritten digits, labelled with the digit but not with its place.

    The digit is scaled to a size within `digit_size` (both ends included) and put at a random place on `background` × a grey
    crop of a scikit-learn photograph, over `fragments` pieces cut from digits of other classes, with Gaussian `noise` (its
    standard deviation, white being 1). The defaults lie where the methods differ; many more fragments or a larger canvas
    defeat even the supervised model.

    The true box is the scaled 8×8 square of the digit, not the ink in it: strokes fill the height of the square but not its width, so
    the square is what agrees best with square windows of about its size.

    Image i of a class is the same whatever `per_class` is. With more images than a class has digits, digits come again in
    another place; `groups` tells which images share one.

    >>> images = cluttered_digits(per_class=2)
    >>> images, images.image(0).size, images.boxes[0].tolist()
    (ImageSet(12 images of 6 classes, boxes, groups), (64, 64), [28.0, 26.0, 56.0, 54.0])
    """
    _check(canvas, digits, digit_size, fragments, fragment_size, per_class=per_class)
    strokes, labels = handwritten()
    sources, names, y, boxes, groups = [], [], [], [], []
    for k, digit in enumerate(digits):
        own, others = np.flatnonzero(labels == digit), np.flatnonzero(labels != digit)
        order = np.random.default_rng([seed, digit]).permutation(own)
        for i in range(per_class):
            rng = np.random.default_rng([seed, digit, i])
            which = order[i % len(order)]
            image = _clutter(rng, canvas, background, others, fragments, fragment_size, digit_size)
            size = int(rng.integers(digit_size[0], digit_size[1] + 1))
            x, top = paste(image, scaled(strokes[which], size), rng)
            sources.append(_noisy(image, noise, rng))
            names.append(f"digit {digit} number {i}")
            y.append(k)
            boxes.append([x, top, x + size, top + size])
            groups.append(int(which))
    return ImageSet(sources, [str(d) for d in digits], y, np.array(boxes, np.float32), names, groups)


def _check(canvas: int, digits: Sequence[int], digit_size: tuple[int, int], fragments: int, fragment_size: int, **counts: int) -> None:
    if not digits or len(set(digits)) != len(digits) or not all(0 <= d <= 9 for d in digits):
        raise ValueError(f"digits must be different numbers in 0..9, but it is {tuple(digits)}")
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, but it is {value}")
    if not 1 <= digit_size[0] <= digit_size[1] <= canvas:
        raise ValueError(f"digit_size must be (least, most) with 1 ≤ least ≤ most ≤ canvas = {canvas}, but it is {tuple(digit_size)}")
    if fragments < 0:
        raise ValueError(f"fragments must not be negative, but it is {fragments}")
    if not 1 <= fragment_size <= digit_size[0]:
        raise ValueError(f"fragment_size must lie in 1..{digit_size[0]}, the least digit size, but it is {fragment_size}")


def _clutter(
    rng: np.random.Generator, canvas: int, background: float, others: np.ndarray, fragments: int, fragment_size: int, size: tuple[int, int]
) -> np.ndarray:
    """(canvas, canvas) a crop of a photograph, and over it pieces of some of the `others` among the handwritten digits."""
    image = background * photograph_crop(rng, canvas)
    for other in rng.choice(others, fragments):
        piece = scaled(handwritten()[0][other], int(rng.integers(size[0], size[1] + 1)))
        left, top = rng.integers(0, len(piece) - fragment_size + 1, 2)
        paste(image, piece[top : top + fragment_size, left : left + fragment_size], rng)
    return image


def _noisy(image: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """(height, width) uint8, with Gaussian noise."""
    image += noise * rng.standard_normal(image.shape)
    return np.round(255 * image.clip(0, 1)).astype(np.uint8)


def scaled(stroke: np.ndarray, size: int) -> np.ndarray:
    """(size, size) a digit of 8×8 numbers in 0..1, enlarged.

    >>> scaled(handwritten()[0][0], 28).shape
    (28, 28)
    """
    return np.asarray(Image.fromarray(stroke).resize((size, size), Image.Resampling.BICUBIC)).clip(0, 1)


def paste(image: np.ndarray, piece: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    """Lay `piece` over `image` at a random place, the brighter of the two winning; its left and top."""
    left = int(rng.integers(0, image.shape[1] - piece.shape[1] + 1))
    top = int(rng.integers(0, image.shape[0] - piece.shape[0] + 1))
    lay_over(image, piece, left, top)
    return left, top


def lay_over(image: np.ndarray, piece: np.ndarray, left: int, top: int) -> None:
    """Lay `piece` over `image` there, the brighter of the two winning.

    >>> ground = np.zeros((2, 2))
    >>> lay_over(ground, np.ones((1, 1)), left=1, top=0)
    >>> ground.tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    window = image[top : top + piece.shape[0], left : left + piece.shape[1]]
    np.maximum(window, piece, out=window)


@cache
def handwritten() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 8, 8) scikit-learn's handwritten digits, values in 0..1, and (1797,) which digit each is.

    >>> handwritten()[1][:3].tolist()
    [0, 1, 2]
    """
    table = np.loadtxt(_scikit_learn_file("data", "digits.csv.gz"), delimiter=",")
    return (table[:, :-1].reshape(-1, 8, 8) / 16).astype(np.float32), table[:, -1].astype(int)


def digit_scenes(
    seed: int = 0,
    n_images: int = 200,
    digits: Sequence[int] = (0, 2, 3, 4, 6, 7),
    most: int = 4,
    canvas: int = 96,
    digit_size: tuple[int, int] = (28, 35),
    background: float = 0.35,
    fragments: int = 6,
    fragment_size: int = 12,
    noise: float = 0.03,
) -> ImageSet:
    """Images that each hold 1 to `most` of scikit-learn's handwritten digits, labelled with which they show, not how many nor where.

    The classes of an image's digits are drawn independently, so that a class may come twice. Digits do not overlap; the ground is that of
    `cluttered_digits`: `background` × a grey crop of a photograph, `fragments` pieces cut from digits of other classes than the
    image's own, Gaussian `noise`. The true box of a digit is its scaled 8×8 square.

    Every handwritten digit is used once at most, so that no test image repeats one of the training; a set that asks for more is refused.
    Image i is the same whatever `n_images` is.

    >>> scenes = digit_scenes(n_images=3)
    >>> scenes, [scenes.shown(i) for i in range(3)]
    (ImageSet(3 images of 6 classes, 5 boxes), [['3', '7'], ['7'], ['4', '6']])
    """
    _check(canvas, digits, digit_size, fragments, fragment_size, n_images=n_images, most=most)
    if len(digits) < 2:
        raise ValueError(f"digits must be two or more, but it is {tuple(digits)}")
    strokes, labels = handwritten()
    unused = {d: list(np.random.default_rng([seed, d]).permutation(np.flatnonzero(labels == d))) for d in digits}
    sources, image, label, boxes = [], [], [], []
    for i in range(n_images):
        rng = np.random.default_rng([seed, 10, i])
        shown = rng.choice(len(digits), size=int(rng.integers(1, most + 1)))
        others = np.flatnonzero(~np.isin(labels, [digits[k] for k in shown]))
        ground = _clutter(rng, canvas, background, others, fragments, fragment_size, digit_size)
        for box, k in zip(_places(rng, len(shown), canvas, digit_size), shown, strict=False):
            if not unused[digits[k]]:
                raise ValueError(f"n_images must be smaller: the handwritten {digits[k]}s are used up after {i} images")
            lay_over(ground, scaled(strokes[unused[digits[k]].pop()], box[2] - box[0]), box[0], box[1])
            image.append(i)
            label.append(int(k))
            boxes.append(box)
        sources.append(_noisy(ground, noise, rng))
    truth = LabelledBoxes(image, label, torch.tensor(boxes, dtype=torch.float32))
    return ImageSet(sources, [str(d) for d in digits], boxes=truth, names=[f"scene {i}" for i in range(n_images)])


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
