"""The paper's figure: mean test loss over C, one panel per loss, one line per method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from lvmdc.reporting.figures import style
from lvmdc.reproduction.results import TITLES, Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, which colour-blind readers can distinguish; markers and dashes distinguish the lines without colour.
STYLES: dict[str, dict[str, Any]] = {
    "LSVM": {"color": "#0072b2", "marker": "s", "linestyle": "--"},
    "ILSVM": {"color": "#d55e00", "marker": "^", "linestyle": "-."},
    "DISC": {"color": "#009e73", "marker": "o", "linestyle": "-", "linewidth": 2.6, "zorder": 4},
    "Supervised": {"color": "#7a7a7a", "marker": "x", "linestyle": ":"},
}
OTHERS = ({"color": "#cc79a7", "marker": "D"}, {"color": "#56b4e9", "marker": "v"}, {"color": "#8a6d00", "marker": "P"})
DODGE = 0.035  # decades between the error bars of neighbouring methods, which would hide each other
MOST_TICKS = 9


def draw_figure(curves: Mapping[str, Mapping[str, pd.DataFrame]], paper: Paper, title: str) -> Figure:
    """The figure. A star at the right edge is the paper's best test loss of the method of that colour, its bar the deviation.

    Args:
        curves: loss → method → `curve` of its runs, which may be empty.
        paper: the paper's numbers.
        title: of all panels.

    >>> nothing = pd.DataFrame({"mean": [], "std": []})
    >>> [axes.get_title() for axes in draw_figure({"zero_one": {"LSVM": nothing}}, {}, "Nothing yet").axes]
    ['0/1 loss']
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with style():
        figure = Figure(figsize=(5.6 * len(curves) + 0.6, 4.9), dpi=150, layout="constrained")
        figure.suptitle(title, fontsize=13)
        panels = figure.subplots(1, len(curves), squeeze=False)[0]
        for axes, (loss, methods) in zip(panels, curves.items(), strict=True):
            _panel(axes, methods, paper.get(loss, {}), TITLES.get(loss, loss))
        lines = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        if any(name in methods for loss, methods in curves.items() for name in paper.get(loss, {})):
            star: Any = {"marker": "*", "markersize": 12, "color": "white", "markeredgecolor": "black"}
            lines["best in the paper"] = Line2D([], [], linestyle="none", **star)
        if lines:
            figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), fontsize=11, frameon=False)
    return figure


def _panel(axes: Axes, methods: Mapping[str, pd.DataFrame], paper: Mapping[str, tuple[float, float]], name: str) -> None:
    axes.set_title(name, fontsize=12)
    axes.set_xlabel("C", fontsize=12)
    axes.set_ylabel("test loss, %", fontsize=12)
    axes.set_xscale("log")
    axes.tick_params(labelsize=11)
    tried = sorted({float(C) for points in methods.values() for C in points.index}) or [1.0]
    decades = max(math.log10(tried[-1] / tried[0]), 1.0)
    for i, (method, points) in enumerate(methods.items()):
        look = STYLES.get(method, {"linestyle": "-"} | OTHERS[i % len(OTHERS)])
        places = points.index.to_numpy(float) * 10 ** (DODGE * (i - (len(methods) - 1) / 2))
        bars = 100 * points["std"].fillna(0.0)
        axes.errorbar(places, 100 * points["mean"], bars, label=method, capsize=3, elinewidth=1, markersize=6, **look)
        if method in paper:
            mean, deviation = paper[method]
            star: Any = {"color": look["color"], "marker": "*", "markersize": 12, "markeredgecolor": "black", "markeredgewidth": 0.6}
            beyond = tried[-1] * 10 ** (decades * (0.08 + 0.03 * i))
            axes.errorbar([beyond], [mean], [deviation], capsize=2, elinewidth=1, linestyle="none", zorder=5, **star)
            axes.axhline(mean, color=look["color"], linewidth=0.8, linestyle=(0, (1, 4)), zorder=1)
    if len(tried) <= MOST_TICKS:  # none beyond the C that were tried, where the paper's stars are
        axes.set_xticks(tried, [f"{C:g}" for C in tried])
        axes.minorticks_off()
