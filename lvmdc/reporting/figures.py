"""Matplotlib figures without global state: one style, line charts, and figures as images, SVG or files.

Matplotlib is imported where it is used, since it takes a moment and most runs draw only at their end. No function uses pyplot.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from lvmdc.storage.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 72  # so that a point, the unit of line widths and letters, is a pixel
INK = "#1d2126"
# Colours of Okabe and Ito, which colour-blind readers can distinguish; dashes and markers distinguish the lines without colour.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0558b", "#8a6d00", "#777777")
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), "-.", (0, (8, 2)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P")
# For letters that Matplotlib's own font lacks; those that are installed are used, letter by letter.
FONTS = ("Noto Sans CJK JP", "Noto Sans", "Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Yu Gothic", "Arial Unicode MS")
MOST_MARKERS = 40  # with more points than this, markers would hide the line
LARGEST = 1e200  # numbers beyond it count as infinite: no axis can show them


@contextmanager
def style() -> Iterator[None]:
    """The look of everything that Matplotlib draws here; names are text, never mathematics.

    >>> import matplotlib
    >>> with style():
    ...     matplotlib.rcParams["text.parse_math"]
    False
    """
    import matplotlib

    settings: Any = {
        "font.family": _fonts(),
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.18,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "none",
        "svg.hashsalt": "lvmdc",
        **{name: INK for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")},
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # its place shows as a box
        yield


@cache
def _fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in FONTS if name in installed)]


def line_chart(
    series: Mapping[str, Sequence[float | None]],
    x: Sequence[float],
    title: str,
    ylabel: str,
    log: bool = False,
    xlabel: str = "iteration",
) -> Figure:
    """One line per series over x, with a legend; lines differ in colour, dashes and markers.

    A linear y axis holds zero, so that noise does not look like a trend. A value of None was not measured, and the line goes on to the
    next one. A value that is NaN or infinite, or not positive on a logarithmic axis, is a gap in the line, and the label of the x axis
    says how many there are.

    >>> chart = line_chart({"objective": [3.0, 2.0, 1.5]}, x=[1, 2, 3], title="Objective", ylabel="value")
    >>> chart.axes[0].lines[0].get_ydata().tolist()
    [3.0, 2.0, 1.5]
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator

    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"series[{name!r}] must have as many values as x = {len(x)}, but it has {len(values)}")
    shown, left_out = [], 0
    with style():
        figure = Figure(figsize=(400 / DPI, 270 / DPI), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        for i, (name, values) in enumerate(series.items()):
            places = np.array([a for a, b in zip(x, values, strict=True) if b is not None], dtype=float)
            numbers = np.array([b for b in values if b is not None], dtype=float)
            bad = ~(np.abs(numbers) < LARGEST) | (log & (numbers < 1 / LARGEST))
            left_out += int(bad.sum())
            shown += numbers[~bad].tolist()
            marker = MARKERS[i % len(MARKERS)] if len(places) <= MOST_MARKERS else ""
            look: Any = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)], "marker": marker, "markersize": 5}
            axes.plot(places, np.where(bad, np.nan, numbers), label=name, linewidth=1.8, clip_on=False, **look)
        axes.set_title(title, loc="left", fontsize=14, fontweight="bold", pad=12)
        axes.set_xlabel(xlabel + (f" ({left_out} left out: not finite{' or ≤ 0' if log else ''})" if left_out else ""), fontsize=11)
        axes.set_ylabel(ylabel, fontsize=11)
        if not shown:
            axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center")
            axes.set(xticks=[], yticks=[])
        else:
            low, high = min(shown), max(shown)
            if log:
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
                axes.yaxis.set_major_formatter("{x:g}")
                axes.minorticks_off()
            elif low >= 0:
                axes.set_ylim(0, 1.08 * high or 1)
            elif high <= 0:
                axes.set_ylim(top=0)
            if all(float(a).is_integer() for a in x):
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="x")
        if series:
            figure.legend(loc="outside lower left", ncols=2, fontsize=11, frameon=False, handlelength=2.6)
    return figure


def as_image(figure: Figure) -> Image.Image:
    """The figure as an RGBA image.

    >>> as_image(line_chart({"a": [1.0]}, [1], "T", "value")).size
    (400, 270)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    with style():
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba()))


def inline_svg(figure: Figure, tooltips: Mapping[str, str] | None = None) -> str:
    """The figure as SVG inside an HTML page, whose CSS sets its colours: `--ink` and `--series-0`, `--series-1`, ….

    Texts of the figure that `tooltips` explains get its explanation as their title.

    >>> svg = inline_svg(line_chart({"a": [1.0, 2.0]}, [1, 2], "T", "value"))
    >>> svg.startswith("<svg"), "var(--series-0)" in svg, "http" in svg
    (True, True, False)
    """
    file = io.StringIO()
    with style():
        figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = file.getvalue()
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg[svg.index("<svg") :], count=2)  # HTML knows these
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # it would hold for the whole page
    svg = re.sub(r' id="[\w.]+_\d+"', "", svg)  # names of groups, which would be the same in every figure of a page
    for text, meaning in (tooltips or {}).items():
        if meaning:
            svg = svg.replace(f">{escape(text)}</text>", f"><title>{escape(meaning)}</title>{escape(text)}</text>")
    for i, colour in enumerate(COLOURS):
        svg = svg.replace(colour, f"var(--series-{i})")
    return svg.replace(INK, "var(--ink)")


def save_figure(figure: Figure, path: str | Path, kinds: Sequence[str] = ("png", "pdf")) -> None:
    """Write `path`.png and `path`.pdf, or other `kinds`, each replaced in one step; the same figure gives the same files."""
    for kind in kinds:
        file = io.BytesIO()
        with style():
            figure.savefig(file, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
        write_atomically(Path(path).with_name(f"{Path(path).name}.{kind}"), file.getvalue())
