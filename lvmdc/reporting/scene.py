"""An image with the boxes of several objects, each with its class and score."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from lvmdc.boxes import LabelledBoxes
from lvmdc.reporting.drawing import CASING, PREDICTED, TRUTH, Pen, Place, lettering, resized, with_caption


def draw_scene(
    image: Image.Image,
    found: LabelledBoxes,
    classes: Sequence[str],
    truth: LabelledBoxes | None = None,
    caption: str = "",
    size: int = 256,
) -> Image.Image:
    """The image, its longer side `size` pixels: predicted boxes solid orange with class and score, true ones dashed green.

    Args:
        image: the image that the boxes were made for.
        found: its predicted boxes.
        classes: the names of the classes.
        truth: its true boxes, where they are known.
        caption: up to three lines of text in a strip below.
        size: pixels of the longer side.

    >>> draw_scene(Image.new("RGB", (64, 48)), LabelledBoxes([0], [0], [[8, 8, 40, 40]], score=[1.5]), ["cat"]).size
    (256, 192)
    """
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, but it is {size}")
    drawn, scale = resized(image, size)
    pen = Pen(ImageDraw.Draw(drawn), width=max(2, round(size / 128)), limit=drawn.size)
    guesses = [pen.place(box, scale) for box in found.box]
    rights = [] if truth is None else [pen.place(box, scale) for box in truth.box]
    for place in guesses + rights:
        pen.case(place)
    for place in reversed(guesses):  # the surest on top
        pen.solid(place, PREDICTED)
    for place in rights:
        pen.dashed(place, TRUTH)
    for j in reversed(range(len(guesses))):
        score = "" if found.score is None else f" {float(found.score[j]):.2f}"
        _tag(pen, guesses[j], f"{classes[int(found.label[j])]}{score}", size)
    return with_caption(drawn, caption, size) if caption else drawn


def _tag(pen: Pen, place: Place, words: str, size: int) -> None:
    """Class and score on the upper left corner of a box: above it, or inside if there is no room."""
    text, font = lettering(words, max(10, round(size / 22)))
    left, _, right, bottom = font.getbbox(text)
    width, height = round(right - left) + 4, round(bottom) + 3
    x = max(0, min(place[0], pen.limit[0] - width))
    y = place[1] - height if place[1] >= height else place[1]
    pen.draw.rectangle((x, y, x + width, y + height), fill=PREDICTED, outline=CASING)
    pen.draw.text((x + 2 - left, y + 1), text, font=font, fill=CASING)
