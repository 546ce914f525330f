"""Sequence logos: what a motif looks like, letters as high as they tell.

T. D. Schneider, R. M. Stephens, Sequence logos: a new way to display consensus sequences, Nucleic Acids Research 18, 1990.
"""

import numpy as np
from PIL import Image, ImageDraw

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.reporting.drawing import INK, PAPER, lettering

LETTERS = "ACGT"
COLOURS = ((20, 130, 50), (30, 80, 190), (235, 155, 0), (200, 35, 35))  # A, C, G, T, as logos have them
LEFT, TOP, BOTTOM = 44, 30, 26  # pixels around the columns
GLYPH = 160  # pixels at which a letter is drawn before it is stretched


def information(probabilities: ArrayLike) -> np.ndarray:
    """(W,): the bits that each place tells, 2 + Σ_a p_a log₂ p_a, for the probabilities (W, 4) of A, C, G, T.

    >>> information([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]).tolist()
    [2.0, 0.0, 1.0]
    """
    p = as_tensor(probabilities).double().cpu().numpy()
    if p.ndim != 2 or p.shape[1] != 4 or len(p) == 0:
        raise ValueError(f"probabilities must have shape (W, 4), but it has shape {p.shape}")
    if not np.isfinite(p).all() or (p < 0).any() or not np.allclose(p.sum(axis=1), 1, atol=1e-3):
        raise ValueError("probabilities must be finite, not negative, and sum to one at each place")
    return 2 + (p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1)


def draw_logo(probabilities: ArrayLike, title: str = "", column: int = 44, height: int = 160) -> Image.Image:
    """The logo of a motif: at each place a pile of letters, `information` bits high, each letter its share p_a of that, the greatest on
    top.

    Args:
        probabilities: (W, 4) of A, C, G, T at each place.
        column: pixels of a place across.
        height: pixels of two bits, the most that a place can tell.

    >>> draw_logo([[0.7, 0.1, 0.1, 0.1]] * 10, "learned").size
    (496, 216)
    """
    p, bits = as_tensor(probabilities).double().cpu().numpy(), information(probabilities)
    sheet = Image.new("RGB", (LEFT + column * len(p) + LEFT // 4 + 1, TOP + height + BOTTOM), PAPER)
    draw = ImageDraw.Draw(sheet)
    text, font = lettering(title, 15)
    draw.text((LEFT, 6), text, font=font, fill=INK)
    for value in (0, 1, 2):
        y = TOP + height - height * value // 2
        draw.line([(LEFT - 5, y), (LEFT, y)], fill=INK)
        draw.text((LEFT - 9, y), str(value), font=lettering("", 12)[1], fill=INK, anchor="rm")
    draw.line([(LEFT, TOP), (LEFT, TOP + height), (LEFT + column * len(p), TOP + height)], fill=INK)
    draw.text((4, TOP + height / 2), "bits", font=lettering("", 12)[1], fill=INK, anchor="lm")
    for place in range(len(p)):
        left, low = LEFT + column * place, float(TOP + height)
        draw.text((left + column / 2, TOP + height + 12), str(place + 1), font=lettering("", 12)[1], fill=INK, anchor="mm")
        for letter in np.argsort(p[place], kind="stable"):
            high = low - height * p[place, letter] * bits[place] / 2
            _stretch(sheet, int(letter), (left + 2, round(high), left + column - 2, round(low)))
            low = high
    return sheet


def _stretch(sheet: Image.Image, letter: int, place: tuple[int, int, int, int]) -> None:
    """Fill a place (x1, y1, x2, y2) with a letter; less than a pixel is nothing."""
    x1, y1, x2, y2 = place
    if y2 <= y1:
        return
    glyph = Image.new("L", (2 * GLYPH, 2 * GLYPH))
    ImageDraw.Draw(glyph).text((GLYPH, GLYPH), LETTERS[letter], font=lettering("", GLYPH)[1], fill=255, anchor="mm", stroke_width=5)
    mask = glyph.crop(glyph.getbbox()).resize((x2 - x1, y2 - y1), Image.Resampling.LANCZOS)
    sheet.paste(COLOURS[letter], (x1, y1), mask)
