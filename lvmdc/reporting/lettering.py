"""Text on pictures."""

import unicodedata
from functools import cache

from PIL import ImageFont

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
