"""Images with boxes, classes and the posterior over boxes; many of them on one sheet.

A predicted box is solid blue, a ground-truth box dashed white, both on a dark line that any image shows. The posterior is a smooth heat
map in a perceptually uniform colour map, purple to yellow. Colour-blind readers can distinguish these colours, and the dashes distinguish
the boxes without colour.
"""

from __future__ import annotations

import io
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.boxes import LabelledBoxes
from lvmdc.reporting.figures import DPI, INK, as_image, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTH = "#ffffff"
PREDICTED = "#56b4e9"  # sky blue of Okabe and Ito
WRONG = "#d55e00"  # vermillion of Okabe and Ito: the mark of a wrong class
GROUND = "#0f0f0f"  # below the lines, and the letters on blue
PAPER = (255, 255, 255)
HEAT = "plasma"  # Matplotlib's perceptually uniform map from purple to yellow
OPACITY, RISE = 0.48, 0.5  # opacity of v is OPACITY · v^RISE: the image shows through certainty, and little probability still shows
BLUR = 1 / 24  # of the image's longer side: the deviation of the Gaussian that smooths the steps between boxes
DASHES = (0, (2.2, 1.8))  # of ground-truth boxes: line and gap, in widths of the line
GAP = 8  # pixels between the images of a sheet
MEANINGS = {
    "truth": "ground-truth box",
    "predicted": "predicted box",
    "heat": "posterior: box covers the point, 0 to 1",
    "right": "class right",
    "wrong": "class wrong",
}
MARKS = {True: "✓", False: "✗"}


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
    """The image with its true box, its predicted box, the posterior over boxes and a caption below.

    Args:
        image: the image that the boxes were made for.
        predicted: (4,) corners x1, y1, x2, y2 of the predicted box: solid blue.
        truth: (4,) corners of the ground-truth box: dashed white.
        boxes: (m, 4) the candidates.
        posterior: (m,) P_θ(h|x,y) over them: the heat is the probability that the box covers a
            point, smoothed; purple if low, yellow if high.
        caption: up to three lines of text; without one there is no strip below the image.
        size: pixels of the longer side.
        correct: whether the class is right, a tick or a cross at the predicted box; None if that is not known.
        like: lines and letters are those of an image of this size, for long strips; `size` where not given.

    >>> draw_detection(Image.new("RGB", (64, 48)), predicted=[8, 8, 40, 40], truth=[10, 8, 42, 40]).size
    (256, 192)
    """
    if (boxes is None) != (posterior is None):
        raise ValueError("boxes and posterior belong together, but only one of them is given")
    guess = None if predicted is None else _checked_box("predicted", predicted)[None]
    right = None if truth is None else _checked_box("truth", truth)[None]
    tags = [] if correct is None or guess is None else [MARKS[correct]]
    heat = None
    if boxes is not None and posterior is not None:
        heat = _checked_boxes("boxes", boxes), _checked_posterior(posterior, len(as_tensor(boxes)))
    return _draw(image, guess, right, tags, heat, caption, size, like or size)


def draw_scene(
    image: Image.Image,
    found: LabelledBoxes,
    classes: Sequence[str],
    truth: LabelledBoxes | None = None,
    caption: str = "",
    size: int = 256,
) -> Image.Image:
    """The image with the boxes of several objects: predicted ones with class and score, and true ones.

    Args:
        image: the image that the boxes were made for.
        found: its predicted boxes, best first.
        classes: the names of the classes.
        truth: its true boxes, where they are known.
        caption: up to three lines of text below the image.
        size: pixels of the longer side.

    >>> draw_scene(Image.new("RGB", (64, 48)), LabelledBoxes([0], [0], [[8, 8, 40, 40]], score=[1.5]), ["cat"]).size
    (256, 192)
    """
    scores = [""] * len(found) if found.score is None else [f" {score:.2f}" for score in found.score.tolist()]
    tags = [f"{classes[k]}{score}" for k, score in zip(found.label.tolist(), scores, strict=True)]
    return _draw(image, found.box, None if truth is None else truth.box, tags, None, caption, size, size)


def _draw(
    image: Image.Image,
    predicted: Tensor | None,
    truth: Tensor | None,
    tags: Sequence[str],
    heat: tuple[Tensor, Tensor] | None,
    caption: str,
    size: int,
    like: int,
) -> Image.Image:
    """The image, its longer side `size` pixels, with boxes (m, 4) on it; lines and letters are those of an image of `like` pixels."""
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, but it is {size}")
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    method = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.LANCZOS
    drawn = image.convert("RGB").resize((width, height), method)
    with style():
        if heat is not None:
            covered = gaussian_filter(coverage(*heat, (width, height), scale), BLUR * like, mode="nearest")
            overlay = Image.fromarray(heat_map(covered))
            drawn.paste(overlay, mask=overlay)
        figure = _canvas(width, height)
        line = max(2, round(like / 90))
        guesses, rights = ([] if boxes is None else (boxes.double() * scale).tolist() for boxes in (predicted, truth))
        for box in guesses + rights:
            _outline(figure, box, line, width=line + 2, color=GROUND)
        for box in reversed(guesses):  # the best one on top
            _outline(figure, box, line, width=line, color=PREDICTED)
        for box in rights:  # where both agree, blue shows between the dashes
            _outline(figure, box, line, width=line, color=TRUTH, linestyle=DASHES)
        for box, tag in reversed(list(zip(guesses, tags, strict=False))):
            _label(figure, box, tag, max(9, round(like / 18)))
        drawn.paste(overlay := as_image(figure), mask=overlay)
        return with_caption(drawn, caption, like) if caption else drawn


def _canvas(width: int, height: int) -> Figure:
    """A transparent figure of that many pixels."""
    from matplotlib.figure import Figure

    # 0.01: sizes are cut to whole pixels
    return Figure(figsize=((width + 0.01) / DPI, (height + 0.01) / DPI), dpi=DPI, facecolor="none")


def _pixels(figure: Figure) -> Any:
    """The transform from pixels, y downwards, to the figure."""
    from matplotlib.transforms import Affine2D

    return Affine2D().scale(1, -1).translate(0, round(figure.bbox.height))


def _outline(figure: Figure, box: Sequence[float], inset: float, width: float, **look: Any) -> None:
    """A box whose line, `inset` pixels wide, lies inside it; what reaches beyond the image is drawn along its edge."""
    from matplotlib.patches import Rectangle

    x1, y1, x2, y2 = (min(max(v, 0), round(figure.bbox.size[i % 2])) for i, v in enumerate(box))
    corner, sides = (x1 + inset / 2, y1 + inset / 2), (max(x2 - x1 - inset, 0.5), max(y2 - y1 - inset, 0.5))
    figure.add_artist(Rectangle(corner, *sides, fill=False, linewidth=width, joinstyle="miter", transform=_pixels(figure), **look))


def _label(figure: Figure, box: Sequence[float], text: str, size: int) -> None:
    """Text on the upper left corner of a box: above it, so as to hide nothing in it, or inside if there is no room."""
    right, bottom = figure.bbox.size
    pad = 0.2 * size
    look = {
        "boxstyle": f"square,pad={pad / size}",
        "facecolor": WRONG if text == MARKS[False] else PREDICTED,
        "edgecolor": GROUND,
        "linewidth": 1,
    }
    written = figure.text(0, 0, _printable(text), fontsize=size, color=GROUND, bbox=look, va="top", transform=_pixels(figure))
    extent = written.get_window_extent()
    width, height = extent.width + 2 * pad, extent.height + 2 * pad
    x = max(0, min(box[0], right - width))
    y = box[1] - height if box[1] >= height else max(0, min(box[1], bottom - height))
    written.set_position((x + pad, y + pad))


def with_caption(drawn: Image.Image, caption: str, like: int = 256) -> Image.Image:
    """The drawing above a strip with up to three lines of text, in letters as for an image of `like` pixels.

    >>> with_caption(Image.new("RGB", (256, 192)), "a deer").width
    256
    """
    size = max(11, round(like / 19))
    width = max(drawn.width, round(0.6 * like))  # a narrow image still gets a caption that is readable
    lines = wrapped(_printable(caption), width - 10, size)
    figure = _canvas(width, round(1.3 * size * len(lines) + 8))
    for i, line in enumerate(lines):
        place = (5, 4 + 1.3 * size * (i + 0.5))
        figure.text(*place, line, fontsize=size, color=INK, va="center_baseline", transform=_pixels(figure))
    strip = as_image(figure)
    sheet = Image.new("RGB", (width, drawn.height + strip.height), PAPER)
    sheet.paste(drawn, (0, 0))
    sheet.paste(strip, (0, drawn.height), strip)
    return sheet


def wrapped(text: str, width: float, size: int, most: int = 3) -> list[str]:
    """`text` in at most `most` lines no wider than `width` pixels in letters of `size` pixels, cut with an ellipsis where it is longer.

    >>> wrapped("a deer in the woods", 72, 12)
    ['a deer in', 'the woods']
    """
    with style():
        for letters in range(max(1, int(width / (0.25 * size))), 0, -1):  # the narrowest letters are about a quarter as wide as high
            lines = textwrap.wrap(text, letters, max_lines=most, placeholder="…")
            if all(text_width(line, size) <= width for line in lines):
                break
    return lines


def text_width(text: str, size: int) -> float:
    """The pixels across of a line of text in letters of `size` pixels.

    >>> text_width("elk", 24) > text_width("elk", 12) > text_width("", 12)
    True
    """
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    return RendererAgg(1, 1, DPI).get_text_width_height_descent(text, FontProperties(size=size), False)[0]


def _printable(text: str) -> str:
    """The text with a blank for control characters and line breaks, which have no shape."""
    return "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)


# ---- the posterior ---------------------------------------------------------------------------------------------------


def coverage(boxes: Tensor, posterior: Tensor, size: tuple[int, int], scale: float = 1.0) -> np.ndarray:
    """(height, width) the probability, under the posterior, that the box covers a pixel: Σ_h p(h) [pixel in box h].

    Args:
        boxes: (m, 4) corners x1, y1, x2, y2.
        posterior: (m,) weights of the boxes, which are made to sum to one.
        size: width and height of the map.
        scale: pixels of the map per unit of `boxes`.

    >>> coverage(torch.tensor([[0, 0, 2, 1], [1, 0, 3, 1]]), torch.tensor([0.75, 0.25]), size=(4, 1))
    array([[0.75, 1.  , 0.25, 0.  ]])
    """
    width, height = size
    p = posterior.detach().cpu().double().numpy()
    corners = np.rint(boxes.detach().cpu().double().numpy() * scale)
    x1, y1, x2, y2 = corners.clip(0, [width, height, width, height]).astype(int).T
    steps = np.zeros((height + 1, width + 1))  # the map's differences in both directions: four numbers per box, however large
    for rows, columns, sign in ((y1, x1, 1), (y1, x2, -1), (y2, x1, -1), (y2, x2, 1)):
        np.add.at(steps, (rows, columns), sign * p / p.sum())
    return steps.cumsum(0).cumsum(1)[:height, :width].clip(0, 1)


def heat_map(values: np.ndarray) -> np.ndarray:
    """(…, 4) red, green, blue and opacity, 0 to 255, of values in 0 to 1: transparent, then purple, then yellow.

    >>> heat_map(np.array([0.0, 1.0]))[:, 3].tolist()
    [0, 122]
    """
    from matplotlib import colormaps

    colours = colormaps[HEAT](values, bytes=True)
    colours[..., 3] = np.rint(255 * OPACITY * values**RISE)
    return colours


# ---- sheets ----------------------------------------------------------------------------------------------------------


def contact_sheet(
    images: Sequence[Image.Image], columns: int = 4, legend: bool = True, meanings: Sequence[str] | None = None
) -> Image.Image:
    """The images in rows of `columns`, each column as wide as its widest and each row as high as its highest, above a legend.

    Where `meanings` are given, the legend has only those of `MEANINGS`.

    >>> contact_sheet([Image.new("RGB", (100, 80))] * 5, columns=3, legend=False).size
    (332, 184)
    """
    if not images:
        raise ValueError("images must hold at least one image, but it is empty")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, but it is {columns}")
    rows = [images[i : i + columns] for i in range(0, len(images), columns)]
    widths = [max(image.width for image in images[k::columns]) for k in range(min(columns, len(images)))]
    width = sum(widths) + GAP * (len(widths) + 1)
    key = [draw_legend(width, meanings)] if legend else []
    heights = [max(image.height for image in row) for row in rows]
    sheet = Image.new("RGB", (width, sum(heights) + GAP * (len(rows) + 1) + sum(image.height for image in key)), PAPER)
    top = GAP
    for row, height in zip(rows, heights, strict=True):
        for k, image in enumerate(row):
            sheet.paste(image, (GAP + sum(widths[:k]) + GAP * k, top))
        top += height + GAP
    for image in key:
        sheet.paste(image, (0, top))
    return sheet


def draw_legend(width: int, meanings: Sequence[str] | None = None) -> Image.Image:
    """What the lines and colours of a drawing mean, in as many columns as `width` pixels have room for.

    >>> draw_legend(1000).width, draw_legend(300).height > draw_legend(1000).height
    (1000, True)
    """
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    box: dict[str, Any] = {"facecolor": "#6e6e6e", "linewidth": 2}
    mark: dict[str, Any] = {"linestyle": "", "markersize": 10, "markerfacecolor": GROUND, "markeredgewidth": 0.3, "markeredgecolor": GROUND}
    squares = [Line2D([], [], linestyle="", marker="s", markersize=15, color=colour) for colour in (PREDICTED, WRONG)]
    handles: dict[str, Any] = {
        "truth": Patch(**box, edgecolor=TRUTH, linestyle=DASHES),
        "predicted": Patch(**box, edgecolor=PREDICTED),
        "heat": tuple(Patch(facecolor=colour[:3] / 255) for colour in heat_map(np.linspace(0, 1, 6))),
        "right": (squares[0], Line2D([], [], marker=f"${MARKS[True]}$", **mark)),
        "wrong": (squares[1], Line2D([], [], marker=f"${MARKS[False]}$", **mark)),
    }
    names = list(MEANINGS if meanings is None else meanings)
    with style():
        for columns in range(len(names), 0, -1):
            figure = _canvas(width, 30 * -(-len(names) // columns))
            legend = figure.legend(
                [handles[name] for name in names],
                [MEANINGS[name] for name in names],
                handler_map={handles["heat"]: HandlerTuple(ndivide=None, pad=0)},
                loc="center left",
                bbox_to_anchor=(0, 0.5),
                ncols=columns,
                frameon=False,
                fontsize=13,
                handlelength=2.2,
                handleheight=1.1,
            )
            if legend.get_window_extent().width <= width:
                break
        drawn = as_image(figure)
    sheet = Image.new("RGB", drawn.size, PAPER)
    sheet.paste(drawn, mask=drawn)
    return sheet


def png(image: Image.Image) -> bytes:
    """The bytes of a PNG file.

    >>> png(Image.new("RGB", (2, 1)))[1:4]
    b'PNG'
    """
    file = io.BytesIO()
    image.save(file, format="PNG", compress_level=3)  # a third of the time of 6, the usual level, for 7 % more bytes
    return file.getvalue()


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
        raise ValueError(f"posterior must have shape ({m},), one probability per box, but it has shape {tuple(posterior.shape)}")
    bad = ~posterior.isfinite() | (posterior < 0)
    if bool(bad.any()):
        raise ValueError(f"posterior must be finite and not negative, but it holds {float(posterior[bad][0])}")
    if float(posterior.sum()) <= 0:
        raise ValueError("posterior must have a positive sum, but it is zero everywhere")
    return posterior
