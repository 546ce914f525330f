"""Drawing boxes, text and the posterior on an image."""

import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor

# Text on images.

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
# Tried in turn for what Pillow's own font, which is ASCII, cannot write; the first that is installed and knows all letters serves.
FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "NotoSansCJK-Regular.ttc", "arial.ttf", "Arial Unicode.ttf", "msgothic.ttc")


def lettering(text: str, size: int) -> tuple[str, Font]:
    """The text, and a font that can write it. Where no installed font knows all letters, accents go and the rest becomes `?`.

    >>> lettering("a moose", 12)[0]
    'a moose'
    """
    text = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)  # control characters have no shape
    if not text.isascii():
        for name in FONTS:
            font = _installed(name, size)
            if font is not None and all(_writes(font, c) for c in set(text)):
                return text, font
        letters = unicodedata.normalize("NFKD", text)
        text = "".join(c if c.isascii() else "?" for c in letters if not unicodedata.combining(c))
    return text, _own(size)


def wrapped(text: str, font: Font, width: float, most: int = 3) -> list[str]:
    """`text` in at most `most` lines no wider than `width` pixels, cut with an ellipsis where it is longer.

    >>> wrapped("a deer in the woods", lettering("", 12)[1], 60)
    ['a deer in', 'the woods']
    """
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if font.getlength(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:  # a word on a line of its own may still be too long
            if lines[-1] and font.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    if len(lines) > most:
        last = lines[most - 1]
        while last and font.getlength(f"{last}...") > width:
            last = last[:-1]
        lines = [*lines[: most - 1], f"{last}..."]
    return lines


@cache
def _own(size: int) -> Font:
    return ImageFont.load_default(size)


@cache
def _installed(name: str, size: int) -> Font | None:
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


def _writes(font: Font, letter: str) -> bool:
    missing, mask = font.getmask("\U0010ffff"), font.getmask(letter)  # no font has U+10FFFF: it shows as a missing letter does
    return mask.size != missing.size or bytes(mask) != bytes(missing) or letter == " "


# Lines that stand out on any image, each box in its own colour and its own style.
#
# Colours are near those of Okabe and Ito, which colour-blind readers tell apart; the style tells the boxes apart without colour.

Colour = tuple[int, int, int]
Place = tuple[int, int, int, int]  # left, top, right, bottom in pixels, the last ones included

TRUTH: Colour = (0, 205, 140)  # bluish green, brightened for dark images; dashed
PREDICTED: Colour = (255, 140, 26)  # orange; solid
CASING: Colour = (15, 15, 15)  # around both


@dataclass(frozen=True)
class Pen:
    """Draws boxes on an image of `limit` (width, height) pixels, with lines `width` pixels wide that lie inside the box.

    >>> from PIL import Image
    >>> image = Image.new("RGB", (32, 32))
    >>> pen = Pen(ImageDraw.Draw(image), width=2, limit=image.size)
    >>> pen.solid((4, 4, 20, 20), PREDICTED)
    >>> image.getpixel((4, 10)), image.getpixel((5, 10)), image.getpixel((6, 10))
    ((255, 140, 26), (255, 140, 26), (0, 0, 0))
    """

    draw: ImageDraw.ImageDraw
    width: int
    limit: tuple[int, int]

    def place(self, box: Tensor, scale: float) -> Place:
        """Where a box (x1, y1, x2, y2) lies on an image enlarged by `scale`; what reaches beyond it is drawn along its edge."""
        corners = [round(float(v) * scale) - (i > 1) for i, v in enumerate(box)]
        x1, y1, x2, y2 = (min(max(v, 0), self.limit[i % 2] - 1) for i, v in enumerate(corners))
        return x1, y1, max(x1, x2), max(y1, y2)

    def case(self, place: Place) -> None:
        """The dark ground of a box's line, a pixel wider on both sides."""
        x1, y1, x2, y2 = place
        self.draw.rectangle((x1 - 1, y1 - 1, x2 + 1, y2 + 1), outline=CASING, width=self.width + 2)

    def solid(self, place: Place, colour: Colour) -> None:
        """The predicted box."""
        self.draw.rectangle(place, outline=colour, width=self.width)

    def dashed(self, place: Place, colour: Colour) -> None:
        """The true box; a dash starts at the left and at the top of each side."""
        (x1, y1, x2, y2), last, dash = place, self.width - 1, 3 * self.width
        for x in range(x1, x2 + 1, 2 * dash):
            for y in (y1, max(y1, y2 - last)):
                self.draw.rectangle((x, y, min(x + dash - 1, x2), min(y + last, y2)), fill=colour)
        for y in range(y1, y2 + 1, 2 * dash):
            for x in (x1, max(x1, x2 - last)):
                self.draw.rectangle((x, y, min(x + last, x2), min(y + dash - 1, y2)), fill=colour)

    def badge(self, place: Place, colour: Colour, correct: bool) -> None:
        """A tick or a cross on the upper left corner of a box: above it, so as to hide nothing in it, or inside if there is no room."""
        side = 6 * self.width
        x, y = place[0], place[1] - side if place[1] >= side else place[1]
        self.draw.rectangle((x, y, x + side, y + side), fill=colour, outline=CASING)
        tick, cross = [[(0.2, 0.52), (0.42, 0.74), (0.8, 0.28)]], [[(0.25, 0.25), (0.75, 0.75)], [(0.25, 0.75), (0.75, 0.25)]]
        for stroke in tick if correct else cross:
            self.draw.line([(x + a * side, y + b * side) for a, b in stroke], fill=CASING, width=self.width, joint="curve")


# The posterior over boxes as a translucent heat map.

# Yellow to red: even steps of lightness (0.94 to 0.58) and hue (105° to 27°) in OKLCH, as saturated as sRGB allows.
RAMP = ((255, 241, 47), (255, 211, 55), (254, 181, 3), (247, 152, 7), (240, 121, 7), (234, 82, 2), (227, 18, 30))
OPACITY, RISE = 0.62, 0.65  # opacity of v is OPACITY · v^RISE: certainty can be seen through, and little probability still be seen


def coverage(boxes: Tensor, posterior: Tensor, size: tuple[int, int], scale: float = 1.0) -> np.ndarray:
    """(height, width) the probability, under the posterior, that the box covers a pixel: Σ_h p(h) [pixel in box h].

    Args:
        boxes: (m, 4) corners x1, y1, x2, y2.
        posterior: (m,) weights of the boxes, which are made to sum to one.
        size: width and height of the map.
        scale: pixels of the map per unit of `boxes`.

    >>> import torch
    >>> coverage(torch.tensor([[0, 0, 2, 1], [1, 0, 3, 1]]), torch.tensor([0.75, 0.25]), size=(4, 1))
    array([[0.75, 1.  , 0.25, 0.  ]])
    """
    width, height = size
    p = posterior.detach().cpu().double().numpy()
    corners = np.rint(boxes.detach().cpu().double().numpy() * scale)
    x1, y1, x2, y2 = corners.clip(0, [width, height, width, height]).astype(int).T
    steps = np.zeros((height + 1, width + 1))  # the map's differences in both directions: four numbers a box, however large
    for rows, columns, sign in ((y1, x1, 1), (y1, x2, -1), (y2, x1, -1), (y2, x2, 1)):
        np.add.at(steps, (rows, columns), sign * p / p.sum())
    return steps.cumsum(0).cumsum(1)[:height, :width].clip(0, 1)


def ramp(values: np.ndarray) -> np.ndarray:
    """(..., 4) red, green, blue and opacity, 0..255, of values in 0..1: transparent, then yellow, then red.

    >>> ramp(np.array([0.0, 1.0])).tolist()
    [[255, 241, 47, 0], [227, 18, 30, 158]]
    """
    places = np.linspace(0, 1, len(RAMP))
    colours = [np.interp(values, places, channel) for channel in np.transpose(RAMP)]
    return np.rint(np.stack([*colours, 255 * OPACITY * values**RISE], axis=-1)).astype(np.uint8)


def heat(image: Image.Image, values: np.ndarray) -> Image.Image:
    """The image with values in 0..1, (height, width), laid over it.

    >>> heat(Image.new("RGB", (2, 1)), np.array([[0.0, 1.0]])).getpixel((0, 0))
    (0, 0, 0)
    """
    return Image.alpha_composite(image.convert("RGBA"), Image.fromarray(ramp(values))).convert("RGB")


# An image of a prediction: true box, predicted box and the posterior over boxes.

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
    """The image, its longer side `size` pixels, with boxes on it and the caption in a strip below.

    Args:
        image: the image that the boxes were made for.
        predicted: (4,) corners x1, y1, x2, y2 of the predicted box: solid orange.
        truth: (4,) corners of the true box: dashed green.
        boxes: (m, 4) the candidates.
        posterior: (m,) P_θ(h|x,y) over them: the heat is the probability that the box covers the pixel, yellow if low, red if high.
        caption: up to three lines of text; without one there is no strip.
        size: pixels of the longer side.
        correct: whether the class is right, a tick or a cross at the predicted box; None if that is not known.
        like: lines and letters are those of an image of this size, for long strips; `size` where not given.

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
    """The image in RGB, its longer side `size` pixels, and by how much it grew.

    >>> resized(Image.new("L", (64, 48)), 128)[1]
    2.0
    """
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    method = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.LANCZOS
    return image.convert("RGB").resize((width, height), method), scale


def with_caption(drawn: Image.Image, caption: str, size: int) -> Image.Image:
    """The drawing above a strip with up to three lines of text, in letters for an image of `size` pixels.

    >>> with_caption(Image.new("RGB", (64, 48)), "a cat", 64).size
    (64, 68)
    """
    text, font = lettering(caption, max(11, round(size / 18)))
    width = max(drawn.width, round(0.6 * size))  # a narrow image still gets a caption that can be read
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
