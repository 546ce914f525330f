"""docs/RESULTS.md: one page over all published figures, each of which leaves a page, a chart and its facts in docs/results/."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lvmdc.reporting import Table
from lvmdc.reporting.figures import save_figure, style
from lvmdc.reporting.table import MISSING
from lvmdc.reproduction.report import STYLES, Report, draw_figure, look_of
from lvmdc.reproduction.results import paired_test
from lvmdc.reproduction.tables import TITLES, p_value, prior_text, start_text
from lvmdc.storage.files import read_json, read_text, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
ORDER = (
    "digits",
    "figure_1",
    "figure_1_cnn",
    "figure_1_search_cnn",
    "figure_2",
    "rotated_digits",
    "motif",
)  # others come last
NEAR = 0.5  # points within which two test losses count as equal
SIGNIFICANT = 0.01

Facts = Mapping[str, Any]


def facts(report: Report) -> dict[str, Any]:
    """What the summary says of a figure, as plain data."""
    cells = []
    for s in report.summaries:
        runs = s.reported
        calibration = report.calibration(s)
        cell: dict[str, Any] = {"loss": s.loss, "method": s.method, "known_h": s.known_h, "spread": s.spread}
        cell |= {"start": start_text(s), "prior": prior_text(s, report.prior)}
        cell["test"] = [] if runs is None else runs["loss"].tolist()
        if calibration is not None:
            cell["calibration"] = {"bins": calibration.bins, "error": calibration.error, "of_truth": calibration.of_truth}
        cells.append(cell)
    curves = {
        loss: {name: [[C, row["mean"], row["std"]] for C, row in points.iterrows()] for name, points in methods.items()}
        for loss, methods in report.curves().items()
    }
    own: dict[str, Any] = {"name": report.name, "title": report.title, "about": report.about, "command": report.command}
    own |= {"measured": report.measured(), "compare": report.compare, "prior": report.prior, "test_share": report.test_share}
    own |= {"runs": report.n_runs, "cpu_seconds": report.cpu_seconds, "paper": report.paper}
    return own | {"cells": cells, "curves": curves}


def publish(folder: str | Path, report: Report, chart: bytes) -> Path:
    """Write the page, chart and facts of a figure below `folder`/results, and `folder`/RESULTS.md from the facts of all."""
    pages = Path(folder) / "results"
    write_atomically(pages / f"{report.name}.png", chart)
    write_atomically(pages / f"{report.name}.md", f"{report.page()}\n".encode())
    write_atomically(pages / f"{report.name}.json", f"{json.dumps(facts(report), indent=1, ensure_ascii=False)}\n".encode())
    return write_summary(folder)


def write_summary(folder: str | Path) -> Path:
    """RESULTS.md with its charts, from the facts in `folder`/results; what is written outside of the markers stays."""
    pages, path = Path(folder) / "results", Path(folder) / "RESULTS.md"
    found = [read_json(file) for file in sorted(pages.glob("*.json"))]
    found.sort(key=lambda f: (ORDER.index(f["name"]) if f["name"] in ORDER else len(ORDER), f["name"]))
    text = read_text(path) if path.exists() else f"# Results\n\n{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"{path} must hold {BEGIN} and {END} once, in this order")
    charts = {"overview": draw_overview(found), "curves": draw_curves_of_paper(found), "calibration": draw_calibration(found)}
    for name, chart in charts.items():
        if chart is not None:
            save_figure(chart, pages / name, ["png"])
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    drawn = {name for name, chart in charts.items() if chart is not None}
    write_atomically(path, f"{before}{BEGIN}\n{section(found, drawn)}\n{END}{after}".encode())
    return path


def section(found: Sequence[Facts], drawn: set[str]) -> str:
    """The generated part of RESULTS.md."""
    parts = [losses_table(found).markdown(), standing(found)]
    if "overview" in drawn:
        parts.append("![Test loss of each system less that of DISC](results/overview.png)")
    if "curves" in drawn:
        parts.append(
            "Test loss over C, where the paper has figures 1 and 2; stars are the paper's values. Faint lines: the same method from the"
            " centre, from the paper's random starts, or without the prior.\n\n![Test loss over C](results/curves.png)"
        )
    parts += ["## What is significant", significance_table(found).markdown()]
    if "calibration" in drawn:
        parts += ["## How far P_θ can be believed", calibration_table(found).markdown(), "![Reliability](results/calibration.png)"]
    parts += ["## What went in", supervision_table(found).markdown()]
    parts += ["## Pages", "\n".join(f"- [{each['title']}](results/{each['name']}.md)" for each in found)]
    return "\n\n".join(parts)


def systems(found: Sequence[Facts]) -> list[str]:
    """The methods of all figures, without other starts of the same ones; those that know h last."""
    names = {cell["method"]: cell["known_h"] for each in found for cell in each["cells"] if "," not in cell["method"]}
    return sorted(names, key=lambda name: names[name])


def rows(found: Sequence[Facts]) -> list[tuple[Facts, str, dict[str, Facts]]]:
    """Figure, loss, and method → cell, for each loss of each figure."""
    return [
        (each, loss, {cell["method"]: cell for cell in each["cells"] if cell["loss"] == loss and cell["test"]})
        for each in found
        for loss in dict.fromkeys(cell["loss"] for cell in each["cells"])
    ]


def losses_table(found: Sequence[Facts]) -> Table:
    """Data and loss × system: the mean test loss in percent, ± over the folds; the lowest without known h is marked with ●."""
    names, lines = systems(found), []
    for each, loss, cells in rows(found):
        own = {name: 100 * np.mean(cell["test"]) for name, cell in cells.items() if name in names}
        weak = [value for name, value in own.items() if not cells[name]["known_h"]]
        line = [each["title"], TITLES.get(loss, loss)]
        for name in names:
            if name not in own:
                line.append(MISSING)
                continue
            deviation = 100 * np.std(cells[name]["test"], ddof=1) if len(cells[name]["test"]) > 1 else 0.0
            lowest = "● " if not cells[name]["known_h"] and own[name] == min(weak) else ""
            line.append(f"{lowest}{own[name]:.1f} ± {deviation:.1f}")
        lines.append(line)
    return Table(["data", "loss", *names], lines, [False, False, *[True] * len(names)])


def standing(found: Sequence[Facts]) -> str:
    """In how many comparisons DISC is lowest, nearly so, or not."""
    first, near, not_lowest, total = 0, 0, [], 0
    for each, loss, cells in rows(found):
        weak = {n: 100 * float(np.mean(c["test"])) for n, c in cells.items() if not c["known_h"] and "," not in n}
        if each["compare"] not in weak or loss == "label":
            continue
        total += 1
        own, best = weak[each["compare"]], min(weak, key=weak.__getitem__)
        first += best == each["compare"]
        near += own <= weak[best] + NEAR
        if own > weak[best] + NEAR:
            not_lowest.append(f"{each['title']}, {TITLES.get(loss, loss)}: {best} by {own - weak[best]:.1f} points")
    text = (
        "Test loss in percent at settings chosen on validation data, ± over the folds; ● is the lowest of those that do not know h. Of"
        f" {total} comparisons with a loss that depends on h, DISC is lowest in {first}, and lowest or within half a point of it in {near}."
    )
    return text + (" Another system is lower by more than that in: " + "; ".join(not_lowest) + "." if not_lowest else "")


def significance_table(found: Sequence[Facts]) -> Table:
    """The paired differences of DISC and the paper's two other methods, from every start that was tried."""
    lines = []
    for each, loss, cells in rows(found):
        for own in [name for name in cells if name.partition(",")[0] == each["compare"]]:
            start = cells[own]["start"] + (f", prior {cells[own]['prior']}" if each["prior"] else "")
            for other in ("LSVM", "ILSVM"):
                pair = [cells.get(name, {"test": []})["test"] for name in (own, own.replace(each["compare"], other, 1))]
                if len(pair[0]) != len(pair[1]):
                    continue
                test = paired_test(np.array(pair[0]), np.array(pair[1]), each["test_share"])
                verdict = "yes" if test.p is not None and test.p < SIGNIFICANT else "no"
                gap = f"{100 * test.difference:+.1f}".replace("-", "−")
                row = [each["title"], TITLES.get(loss, loss), start, f"{each['compare']} − {other}", gap, p_value(test.p)]
                lines.append([*row, p_value(test.corrected), verdict])
    heads = ["data", "loss", "start", "difference", "points", "p", "p corrected", f"p < {SIGNIFICANT:g}"]
    return Table(heads, lines, [False, False, False, False, True, True, True, False])


def calibration_table(found: Sequence[Facts]) -> Table:
    """The expected calibration error of P_θ and what it gives the true h, in percent."""
    calibrated = [(each, loss, {n: c["calibration"] for n, c in cells.items() if "calibration" in c}) for each, loss, cells in rows(found)]
    names = [name for name in systems(found) if any(name in own for _, _, own in calibrated)]
    lines = []
    for each, loss, own in calibrated:
        if own:
            both = [f"{100 * own[n]['error']:.1f} / {100 * own[n]['of_truth']:.0f}" if n in own else MISSING for n in names]
            lines.append([each["title"], TITLES.get(loss, loss), *both])
    heads = ["data", "loss", *(f"{name}: error / P_θ(true h)" for name in names)]
    return Table(heads, lines, [False, False, *[True] * len(names)])


def supervision_table(found: Sequence[Facts]) -> Table:
    """Data, supervision, start and prior of DISC as validation chose them by fold, how far rounding moves results, command and cost."""
    lines = []
    for each in found:
        used = each["about"].partition("Supervision in training: ")[2]
        spreads = [cell["spread"] for cell in each["cells"] if cell["spread"] is not None]
        spread = f"{100 * np.mean(spreads):.2f}, at most {100 * max(spreads):.2f}" if spreads else MISSING
        cost = f"{each['runs']} runs, {each['cpu_seconds'] / 60:.0f} min"
        own = [cell for cell in each["cells"] if cell["method"] == each["compare"]]
        starts, priors = ("; ".join(f"{TITLES.get(cell['loss'], cell['loss'])}: {cell[k]}" for cell in own) for k in ("start", "prior"))
        chosen = [starts, "none" if each["prior"] is None else priors]
        lines.append([each["title"], used.rstrip("."), *chosen, spread, each["command"], cost, each["measured"]])
    heads = ["data", "supervision", "start", "prior", "spread, points", "command", "CPU time", "measured"]
    return Table(heads, lines, [False] * len(heads))


def draw_overview(found: Sequence[Facts]) -> Figure | None:
    """A row for each data set and loss: how far the other systems are above DISC, in points."""
    from matplotlib.figure import Figure

    lines = [(each, loss, cells) for each, loss, cells in rows(found) if each["compare"] in cells]
    if not lines:
        return None
    names = [name for name in systems(found) if name != lines[0][0]["compare"]]
    with style():
        figure = Figure(figsize=(9.6, 0.42 * len(lines) + 1.9), dpi=150, layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color=STYLES["DISC"]["color"], linewidth=2.4, label="DISC")
        for place, (each, _, cells) in enumerate(lines):
            own = np.mean(cells[each["compare"]]["test"])
            for name in names:
                if name in cells:
                    gap = 100 * (np.mean(cells[name]["test"]) - own)
                    axes.plot([gap], [place], markersize=7, label=name, **look_of(name) | {"linestyle": "none"})
        axes.set_yticks(range(len(lines)), [f"{each['title']} · {TITLES.get(loss, loss)}" for each, loss, _ in lines])
        axes.invert_yaxis()
        axes.set_xlabel("test loss less that of DISC, points (right: worse than DISC)")
        axes.set_xscale("symlog", linthresh=5)
        axes.set_xticks([-20, -10, -5, -2, 0, 2, 5, 10, 20, 40], ["−20", "−10", "−5", "−2", "0", "2", "5", "10", "20", "40"])
        handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def draw_curves_of_paper(found: Sequence[Facts]) -> Figure | None:
    """The figures whose losses the paper has, below each other."""
    with_paper = {each["title"]: each for each in found if each["paper"]}
    if not with_paper:
        return None
    figures = {}
    for title, each in with_paper.items():
        curves = {
            loss: {name: pd.DataFrame(points, columns=["C", "mean", "std"]).set_index("C") for name, points in methods.items()}
            for loss, methods in each["curves"].items()
        }
        figures[title] = (curves, each["paper"])
    return draw_figure(figures)


def draw_calibration(found: Sequence[Facts]) -> Figure | None:
    """Reliability: how often the most probable h is right, over the probability that P_θ gives it."""
    from matplotlib.figure import Figure

    panels = [(each, loss, {n: c for n, c in cells.items() if "calibration" in c and "," not in n}) for each, loss, cells in rows(found)]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        return None
    columns = min(4, len(panels))
    with style():
        height = -(-len(panels) // columns)
        figure = Figure(figsize=(2.7 * columns, 2.8 * height + 0.5), dpi=150, layout="constrained")
        grid = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (each, loss, cells) in zip(grid.flat, panels, strict=False):
            axes.set_title(f"{each['title']}\n{TITLES.get(loss, loss)}", fontsize=8)
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle=":")
            for name, cell in cells.items():
                bins = np.array(cell["calibration"]["bins"])
                axes.plot(bins[:, 0], bins[:, 1], markersize=4, label=name, **look_of(name) | {"linestyle": "-", "linewidth": 1.4})
        figure.supxlabel("probability that P_θ gives its most probable h", fontsize=9)
        figure.supylabel("share that is right", fontsize=9)
        handles = {label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9)
    return figure
