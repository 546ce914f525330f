"""The paper's figure: mean test loss over C, one panel a loss, one line a method."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lvmdc.reproduction.selection import Choice
from lvmdc.reproduction.summary import Paper
from lvmdc.reproduction.tables import TITLES
from lvmdc.storage.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves = Mapping[str, Mapping[str, Sequence[tuple[float, Choice]]]]  # loss → method → points by increasing C

# Colours of Okabe and Ito, which colour-blind readers tell apart; markers and dashes tell the lines apart without colour.
STYLES: dict[str, dict[str, Any]] = {
    "LSVM": {"color": "#0072b2", "marker": "s", "linestyle": "--"},
    "ILSVM": {"color": "#d55e00", "marker": "^", "linestyle": "-."},
    "DISC": {"color": "#009e73", "marker": "o", "linestyle": "-", "linewidth": 2.6, "zorder": 4},
    "Supervised": {"color": "#7a7a7a", "marker": "x", "linestyle": ":"},
}
OTHERS = ({"color": "#cc79a7", "marker": "D"}, {"color": "#56b4e9", "marker": "v"}, {"color": "#8a6d00", "marker": "P"})
DODGE = 0.035  # decades between the error bars of neighbouring methods, which would hide each other
MOST_TICKS = 9
LABEL_GAP = 0.055  # of the height of a panel, between two labels at its edge


def require(*packages: str) -> None:
    """Refuse to begin where a package lacks that only the end needs.

    >>> require("no_such_package")
    Traceback (most recent call last):
    ModuleNotFoundError: the figures need no_such_package, which is not installed: pip install 'lvmdc[paper]'
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"the figures need {package}, which is not installed: pip install 'lvmdc[paper]'")


def draw_chart(curves: Curves, paper: Paper, title: str) -> Figure:
    """The figure. A star at the right edge is the paper's best test loss of the method of that colour, a bar its deviation.

    >>> require("matplotlib")
    >>> [axes.get_title() for axes in draw_chart({"zero_one": {"LSVM": []}}, {}, "Nothing yet").axes]
    ['0/1 loss']
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * len(curves) + 0.6, 4.9), dpi=150, layout="constrained")
    figure.suptitle(title, fontsize=13)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (loss, methods) in zip(panels, curves.items(), strict=True):
        _panel(axes, methods, paper.get(loss, {}), TITLES.get(loss, loss))
    lines = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if lines:
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), fontsize=11, frameon=False)
    return figure


def _panel(axes: Axes, methods: Mapping[str, Sequence[tuple[float, Choice]]], paper: Mapping[str, tuple[float, float]], name: str) -> None:
    axes.set_title(name, fontsize=12)
    axes.set_xscale("log")
    axes.set_xlabel("C", fontsize=12)
    axes.set_ylabel("test loss, %", fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(alpha=0.25)
    styles = {method: _style(method, i) for i, method in enumerate(methods)}
    for i, (method, points) in enumerate(methods.items()):
        shift = 10 ** (DODGE * (i - (len(methods) - 1) / 2))
        means = [100 * choice.mean("loss") for _, choice in points]
        spreads = [100 * (choice.deviation("loss") or 0.0) for _, choice in points]
        places = [C * shift for C, _ in points]
        axes.errorbar(places, means, spreads, label=method, capsize=3, elinewidth=1, markersize=6, **styles[method])
    tried = sorted({C for points in methods.values() for C, _ in points})
    if 0 < len(tried) <= MOST_TICKS:  # none beyond the C that were tried, where the paper's stars stand
        axes.set_xticks(tried)
        axes.minorticks_off()
    last, unit = max(tried, default=1.0), max(math.log10(tried[-1] / tried[0]), 1.0) / 6 if tried else 1.0

    def beyond(decades: float) -> float:
        """A place right of the last C, in decades of a figure as wide as the paper's, which has six."""
        return last * 10 ** (decades * unit)

    for i, (method, (mean, deviation)) in enumerate((m, paper[m]) for m in methods if m in paper):
        colour = styles[method]["color"]
        star = {"color": colour, "marker": "*", "markersize": 12, "markeredgecolor": "black", "markeredgewidth": 0.6}
        axes.errorbar([beyond(0.45 + 0.14 * i)], [mean], [deviation], capsize=2, elinewidth=1, linestyle="none", zorder=5, **star)
        axes.axhline(mean, color=colour, linewidth=0.8, linestyle=(0, (1, 4)), zorder=1)
    marked = {m: paper[m][0] for m in methods if m in paper}
    if marked:
        axes.set_xlim(right=beyond(2.6))
        low, high = axes.get_ylim()
        for (method, mean), place in zip(marked.items(), _spread(list(marked.values()), LABEL_GAP * (high - low)), strict=True):
            on_white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            text = {"color": styles[method]["color"], "fontsize": 10, "va": "center", "bbox": on_white}
            axes.text(beyond(1.0), place, f"paper {mean:.1f}", **text)


def _style(method: str, i: int) -> dict[str, Any]:
    return STYLES.get(method, {"linestyle": "-"} | OTHERS[i % len(OTHERS)])


def _spread(values: list[float], gap: float) -> list[float]:
    """Places near the values, in the same order, no two closer than `gap`."""
    order = np.argsort(values, kind="stable")
    placed = np.array(values, float)[order]
    for _ in range(50):  # neighbours push each other apart until all have room
        near = np.diff(placed) < gap - 1e-9
        if not near.any():
            break
        push = np.where(near, (gap - np.diff(placed)) / 2, 0.0)
        placed[:-1] -= push
        placed[1:] += push
    spread = np.empty_like(placed)
    spread[order] = placed
    return spread.tolist()


def save_chart(figure: Figure, path: str | Path) -> None:
    """Write `path`.png and `path`.pdf, each replaced in one step."""
    for kind in ("png", "pdf"):
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)  # the same chart, the same file
        write_atomically(Path(path).with_name(f"{Path(path).name}.{kind}"), file.getvalue())
