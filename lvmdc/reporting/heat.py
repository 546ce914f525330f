"""The posterior over boxes as a translucent heat map."""

import numpy as np
from PIL import Image
from torch import Tensor

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


def heat(picture: Image.Image, values: np.ndarray) -> Image.Image:
    """The picture with values in 0..1, (height, width), laid over it.

    >>> heat(Image.new("RGB", (2, 1)), np.array([[0.0, 1.0]])).getpixel((0, 0))
    (0, 0, 0)
    """
    return Image.alpha_composite(picture.convert("RGBA"), Image.fromarray(ramp(values))).convert("RGB")
