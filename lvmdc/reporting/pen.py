"""Lines that stand out on any picture, each box in its own colour and its own style.

Colours are near those of Okabe and Ito, which colour-blind readers tell apart; the style tells the boxes apart without colour.
"""

from dataclasses import dataclass

from PIL import ImageDraw
from torch import Tensor

Colour = tuple[int, int, int]
Place = tuple[int, int, int, int]  # left, top, right, bottom in pixels, the last ones included

TRUTH: Colour = (0, 205, 140)  # bluish green, brightened for dark pictures; dashed
PREDICTED: Colour = (255, 140, 26)  # orange; solid
CASING: Colour = (15, 15, 15)  # around both


@dataclass(frozen=True)
class Pen:
    """Draws boxes on a picture of `limit` (width, height) pixels, with lines `width` pixels wide that lie inside the box.

    >>> from PIL import Image
    >>> picture = Image.new("RGB", (32, 32))
    >>> pen = Pen(ImageDraw.Draw(picture), width=2, limit=picture.size)
    >>> pen.solid((4, 4, 20, 20), PREDICTED)
    >>> picture.getpixel((4, 10)), picture.getpixel((5, 10)), picture.getpixel((6, 10))
    ((255, 140, 26), (255, 140, 26), (0, 0, 0))
    """

    draw: ImageDraw.ImageDraw
    width: int
    limit: tuple[int, int]

    def place(self, box: Tensor, scale: float) -> Place:
        """Where a box (x1, y1, x2, y2) lies on a picture enlarged by `scale`; what reaches beyond it is drawn along its edge."""
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
