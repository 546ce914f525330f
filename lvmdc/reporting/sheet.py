"""Many drawings on one sheet, with a legend."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from lvmdc.reporting.drawing import INK, PAPER, PREDICTED, TRUTH, Pen, heat, lettering

LINE, SWATCH, GAP = 24, 30, 8  # pixels: a line of the legend, a sample in it, the space between things
MEANINGS = {
    "truth": "true box",
    "predicted": "predicted box",
    "heat": "posterior: box covers the pixel, 0 to 1",
    "right": "class right",
    "wrong": "class wrong",
}


def contact_sheet(
    images: Sequence[Image.Image], columns: int = 4, legend: bool = True, meanings: Sequence[str] | None = None
) -> Image.Image:
    """The images in rows of `columns`, each column as wide as its widest and each row as high as its highest, above a legend.

    Where `meanings` are given, the legend has those of `MEANINGS` alone.

    >>> contact_sheet([Image.new("RGB", (100, 80))] * 5, columns=3, legend=False).size
    (332, 184)
    """
    if not images:
        raise ValueError("images must hold at least one image, but it is empty")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, but it is {columns}")
    rows = [images[i : i + columns] for i in range(0, len(images), columns)]
    widths = [max(p.width for p in images[k::columns]) for k in range(min(columns, len(images)))]
    heights = [max(p.height for p in row) for row in rows]
    width = sum(widths) + GAP * (len(widths) + 1)
    key = [draw_legend(width, meanings)] if legend else []
    sheet = Image.new("RGB", (width, sum(heights) + GAP * (len(heights) + 1) + sum(k.height for k in key)), PAPER)
    top = GAP
    for row, height in zip(rows, heights, strict=True):
        for k, image in enumerate(row):
            sheet.paste(image, (GAP + sum(widths[:k]) + GAP * k, top))
        top += height + GAP
    for image in key:
        sheet.paste(image, (0, top))
    return sheet


def draw_legend(width: int, meanings: Sequence[str] | None = None) -> Image.Image:
    """What the lines and colours of `draw_detection` mean, in as many lines as `width` pixels ask for.

    >>> draw_legend(1000).size, draw_legend(300).size
    ((1000, 32), (300, 80))
    """
    font = lettering("", 13)[1]
    chosen = MEANINGS if meanings is None else {kind: MEANINGS[kind] for kind in meanings}
    places, left, line = [], GAP, 0
    for text in chosen.values():
        length = SWATCH + 6 + round(font.getlength(text))
        if left > GAP and left + length > width:
            left, line = GAP, line + 1
        places.append((left, line * LINE))
        left += length + 2 * GAP
    sheet = Image.new("RGB", (width, (line + 1) * LINE + GAP), PAPER)
    for (kind, text), (x, y) in zip(chosen.items(), places, strict=True):
        sheet.paste(swatch(kind), (x, y + 2))
        ImageDraw.Draw(sheet).text((x + SWATCH + 6, y + 4), text, font=font, fill=INK)
    return sheet


def swatch(kind: str) -> Image.Image:
    """A sample of what one of `MEANINGS` looks like.

    >>> swatch("truth").size
    (30, 20)
    """
    image = Image.new("RGB", (SWATCH, LINE - 4), (110, 110, 110))
    if kind == "heat":
        return heat(image, np.broadcast_to(np.linspace(0, 1, SWATCH), (LINE - 4, SWATCH)))
    pen = Pen(ImageDraw.Draw(image), width=2, limit=image.size)
    place = (2, 2, SWATCH - 3, LINE - 7)
    if kind in ("truth", "predicted"):
        pen.case(place)
        pen.dashed(place, TRUTH) if kind == "truth" else pen.solid(place, PREDICTED)
    else:
        pen.badge((9, 4, 21, 16), PREDICTED, kind == "right")
    return image
