"""A picture of a prediction: true box, predicted box and the posterior over boxes."""

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from lvmdc.candidates import ArrayLike, as_tensor
from lvmdc.reporting.heat import coverage, heat
from lvmdc.reporting.lettering import lettering, wrapped
from lvmdc.reporting.pen import PREDICTED, TRUTH, Pen

PAPER, INK = (255, 255, 255), (25, 25, 25)


def draw_detection(
    image: Image.Image,
    predicted: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    posterior: ArrayLike | None = None,
    caption: str = "",
    size: int = 256,
    correct: bool | None = None,
    like: int | None = None,
) -> Image.Image:
    """The picture, its longer side `size` pixels, with boxes on it and the caption in a strip below.

    Args:
        image: the picture that the boxes were made for.
        predicted: (4,) corners x1, y1, x2, y2 of the predicted box: solid orange.
        truth: (4,) corners of the true box: dashed green.
        boxes: (m, 4) the candidates.
        posterior: (m,) P_θ(h|x,y) over them: the heat is the probability that the box covers the pixel, yellow if low, red if high.
        caption: up to three lines of text; without one there is no strip.
        size: pixels of the longer side.
        correct: whether the class is right, a tick or a cross at the predicted box; None if that is not known.
        like: lines and letters are those of a picture of this size, for long strips; `size` where not given.

    >>> draw_detection(Image.new("RGB", (64, 48)), predicted=[8, 8, 40, 40], truth=[10, 8, 42, 40]).size
    (256, 192)
    """
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, but it is {size}")
    if (boxes is None) != (posterior is None):
        raise ValueError("boxes and posterior belong together, but only one of them was given")
    drawn, scale = resized(image, size)
    if boxes is not None and posterior is not None:
        places = _checked_boxes("boxes", boxes)
        drawn = heat(drawn, coverage(places, _checked_posterior(posterior, len(places)), drawn.size, scale))
    like = like or size
    pen = Pen(ImageDraw.Draw(drawn), width=max(2, round(like / 96)), limit=drawn.size)
    guess = None if predicted is None else pen.place(_checked_box("predicted", predicted), scale)
    right = None if truth is None else pen.place(_checked_box("truth", truth), scale)
    for place in (guess, right):
        if place is not None:
            pen.case(place)
    if guess is not None:
        pen.solid(guess, PREDICTED)
    if right is not None:
        pen.dashed(right, TRUTH)  # over the other: where the two agree, orange shows between the dashes
    if guess is not None and correct is not None:
        pen.badge(guess, PREDICTED, correct)
    return with_caption(drawn, caption, like) if caption else drawn


def resized(image: Image.Image, size: int) -> tuple[Image.Image, float]:
    """The picture in RGB, its longer side `size` pixels, and by how much it grew.

    >>> resized(Image.new("L", (64, 48)), 128)[1]
    2.0
    """
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    method = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.LANCZOS
    return image.convert("RGB").resize((width, height), method), scale


def with_caption(drawn: Image.Image, caption: str, size: int) -> Image.Image:
    """The drawing above a strip with up to three lines of text, in letters for a picture of `size` pixels.

    >>> with_caption(Image.new("RGB", (64, 48)), "a cat", 64).size
    (64, 68)
    """
    text, font = lettering(caption, max(11, round(size / 18)))
    width = max(drawn.width, round(0.6 * size))  # a narrow picture still gets a caption that can be read
    lines, leading = wrapped(text, font, width - 8), max(14, round(size / 14))
    sheet = Image.new("RGB", (width, drawn.height + leading * len(lines) + 6), PAPER)
    sheet.paste(drawn, (0, 0))
    for i, line in enumerate(lines):
        ImageDraw.Draw(sheet).text((4, drawn.height + 3 + i * leading), line, font=font, fill=INK)
    return sheet


def _checked_box(name: str, values: ArrayLike) -> Tensor:
    box = as_tensor(values)
    if box.shape != (4,):
        raise ValueError(f"{name} must have shape (4,), but it has shape {tuple(box.shape)}")
    return _checked_boxes(name, box[None])[0]


def _checked_boxes(name: str, values: ArrayLike) -> Tensor:
    boxes = as_tensor(values).to(torch.float64)
    if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) == 0:
        raise ValueError(f"{name} must have shape (m, 4) with m ≥ 1, but it has shape {tuple(boxes.shape)}")
    proper = boxes.isfinite().all(dim=1) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    if not bool(proper.all()):
        raise ValueError(f"{name} must be finite with x2 > x1 and y2 > y1, but it holds {boxes[~proper][0].tolist()}")
    return boxes


def _checked_posterior(values: ArrayLike, m: int) -> Tensor:
    posterior = as_tensor(values).to(torch.float64)
    if posterior.shape != (m,):
        raise ValueError(f"posterior must have shape ({m},), one probability a box, but it has shape {tuple(posterior.shape)}")
    bad = (~posterior.isfinite() | (posterior < 0)).nonzero().flatten()
    if len(bad):
        raise ValueError(f"posterior must be finite and not negative, but posterior[{int(bad[0])}] is {float(posterior[bad[0]])}")
    if float(posterior.sum()) <= 0:
        raise ValueError("posterior must have a positive sum, but it is zero everywhere")
    return posterior
