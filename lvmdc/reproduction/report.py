"""Everything that is made from the results of a figure: CSV, chart, tables, images, and its page of the documentation."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from PIL import Image

from lvmdc.reporting import Table, contact_sheet, draw_detection
from lvmdc.reporting.drawing import png
from lvmdc.reporting.figures import save_figure, style
from lvmdc.reporting.report import write_page
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Protocol, Run
from lvmdc.reproduction.results import Calibration, Paper, Summary, calibrate, curve, point_text, runs_frame, summarise
from lvmdc.reproduction.tables import TITLES, comparison_table, notes, summary_table
from lvmdc.storage.files import write_atomically
from lvmdc.vision.datasets.images import ImageSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
Curves = Mapping[str, Mapping[str, pd.DataFrame]]  # loss → method → `curve` of its runs, which may be empty
Shown = Mapping[str, tuple[Run, Mapping[str, Any]]]  # method → its run in the first fold, and what that predicted


@dataclass(frozen=True)
class Report:
    """The results of a figure, ready to be shown.

    Args:
        name: of its files, `figure_1`.
        title: of the figure and the pages.
        about: the data in a sentence.
        command: how to run it again.
        protocol: what was planned.
        paper: the paper's numbers.
        results: every planned run with its result, None where it is not done.
        compare: the method that is tested against the others, and
        against: those.
        test_share: of the samples that are learned from or tested on, those of the test part.
        published: whether the division is a published one.
        prior: the name of the prior of h; None: there is none.
        noise: runs that differ from `reported` in the last digit of the features alone.
    """

    name: str
    title: str
    about: str
    command: str
    protocol: Protocol
    paper: Paper
    results: Sequence[tuple[Run, dict[str, Any] | None]]
    compare: str | None
    against: Sequence[str]
    test_share: float = 0.4
    published: bool = False
    prior: str | None = None
    noise: Sequence[tuple[Run, dict[str, Any] | None]] = ()

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run."""
        return runs_frame(self.results)

    @cached_property
    def summaries(self) -> list[Summary]:
        """What is reported of each method under each loss."""
        return summarise(self.protocol, self.runs, self.paper, runs_frame(self.noise))

    @cached_property
    def by_method(self) -> dict[tuple[str, str], tuple[Run, dict[str, Any] | None]]:
        """Every run with its result, by method and key: methods may share runs."""
        return {(run.method, run.key): (run, result) for run, result in self.results}

    def _reported(self, summary: Summary) -> list[tuple[Run, dict[str, Any] | None]]:
        return [] if summary.reported is None else [self.by_method[summary.method, key] for key in summary.reported["key"]]

    @property
    def reported(self) -> list[Run]:
        """The runs whose losses the table reports, one for each method, loss and fold."""
        return [run for summary in self.summaries for run, _ in self._reported(summary)]

    def calibration(self, summary: Summary) -> Calibration | None:
        """How far the P_θ of a method can be believed, over the test samples of all folds; None where it is all on one h in a fold."""
        results = [result for _, result in self._reported(summary)]
        found = [result["posterior"] for result in results if result is not None and "posterior" in result]
        return calibrate(found) if len(found) == len(results) else None

    def tables(self) -> list[Table]:
        """The results and, where methods are compared, the paired tests."""
        compared = self.compare is not None and self.against
        tests = [comparison_table(self.summaries, str(self.compare), self.against, self.test_share)] if compared else []
        return [summary_table(self.summaries, self.prior), *tests]

    def write(self, folder: Path) -> None:
        """`runs.csv`, the figure as PNG and PDF, `table.md` and `table.html`."""
        write_atomically(folder / "runs.csv", self.runs.drop(columns="point").to_csv(index=False).encode())
        save_figure(draw_figure({self.title: (self.curves(), self.paper)}), folder / self.name)
        write_atomically(folder / "table.md", f"{self._text()}\n".encode())
        with Image.open(folder / f"{self.name}.png") as chart:
            write_page(folder / "table.html", self.title, [{"sheet": chart}, {"tables": self.tables(), "notes": self.remarks()}])

    def curves(self) -> Curves:
        """Loss → method → test loss over C; of many methods only those of the paper and the supervised bound."""
        groups = dict(list(self.runs.groupby(["loss_name", "method"])))
        names = [m.name for m in self.protocol.methods]
        drawn = names if len(names) <= MOST_LINES else [name for name in names if name.partition(",")[0] in DRAWN]
        return {loss: {name: curve(groups[loss, name], self.protocol.folds) for name in drawn} for loss in self.protocol.losses}

    def write_examples(self, folder: Path, problem: Problem, images: ImageSet, count: int) -> None:
        """`examples_<loss>.png` and `examples.html`: test images of the first fold as the compared methods see them."""
        methods = [*self.against, *([self.compare] if self.compare else [])] or [m.name for m in self.protocol.methods]
        shown = defaultdict[str, dict[str, tuple[Run, Any]]](dict)
        for summary in self.summaries:
            if summary.best is None or summary.method not in methods:
                continue
            run, result = self.by_method[summary.method, summary.best["key"].iloc[0]]
            if result is not None and "predictions" in result:
                if _fits(result["predictions"], run, problem, len(images.classes)):
                    shown[summary.loss][summary.method] = (run, result["predictions"])
                else:
                    log.warning("the predictions in the result %s do not fit the data, and are not drawn", run.key)
        sections = []
        for loss, methods_shown in shown.items() if count else ():
            sheet = draw_examples(methods_shown, problem, images, count)
            write_atomically(folder / f"examples_{loss}.png", png(sheet))
            chosen = "; ".join(f"{method}: {point_text(run.point)}" for method, (run, _) in methods_shown.items())
            text = f"Test images of the first fold, at the hyperparameters of lowest mean test loss ({chosen})."
            sections.append({"heading": TITLES.get(loss, loss), "text": text, "sheet": sheet})
        if sections:
            write_page(folder / "examples.html", f"{self.title}: examples", sections)

    @property
    def cpu_seconds(self) -> float:
        """Of all runs; one that methods share counts once."""
        found = {run.key: result["measures"] for run, result in [*self.results, *self.noise] if result is not None}
        return sum(measures.get("cpu_seconds", 0.0) for measures in found.values())

    @property
    def n_runs(self) -> int:
        """How many runs there are; one that methods share counts once."""
        return len({run.key for run, _ in [*self.results, *self.noise]})

    def remarks(self) -> list[str]:
        """The notes of the protocol, and what must be known of these runs."""
        done = [result for _, result in self.results if result is not None]
        missing = len(self.results) - len(done)
        unfinished = sum(not result.get("converged", False) for result in done)
        found = [self.about, *notes(self.protocol, self.test_share, self.published)]
        if unfinished:
            found.append(f"{unfinished} of {len(done)} runs stopped at max_iter before they converged; runs.csv lists them.")
        if missing:
            found.append(f"{missing} of {len(self.results)} runs are not done; points without all folds are left out.")
        found.append(f"{self.n_runs} runs, {timedelta(seconds=round(self.cpu_seconds))} of CPU time. {self.measured()}.")
        return found

    def measured(self) -> str:
        """When, with which versions and on what machine the runs were made."""
        return "; ".join(sorted({result["made"] for _, result in [*self.results, *self.noise] if result is not None and "made" in result}))

    def page(self) -> str:
        """The figure's page of the documentation."""
        return f"# {self.title}\n\n`{self.command}`\n\n![{self.title}]({self.name}.png)\n\n{self._text()}"

    def _text(self) -> str:
        remarks = "\n".join(f"- {note}" for note in self.remarks())
        return "\n\n".join([*(table.markdown() for table in self.tables()), remarks])


def draw_examples(shown: Shown, problem: Problem, images: ImageSet, count: int = 6, size: int = 256) -> Image.Image:
    """A sheet of test images of the first fold, a row each, a column per method: ground-truth and predicted box, P_θ(h|x,y).

    Boxes and posteriors are those in the results of the runs; a posterior all on one box is not drawn.
    """
    first = next(iter(shown.values()))[0]
    _, test = first.division.parts(problem.y, problem.groups, problem.published)
    assert problem.truth is not None
    candidates, y, truth = problem.candidates.subset(test), problem.y[test], problem.truth[test]
    assert candidates.boxes is not None
    drawn = []
    for i in torch.linspace(0, len(test) - 1, min(len(test), count)).long().tolist():  # samples are sorted by class: some of each
        start = int(candidates.offsets[i])
        boxes = candidates.boxes[start : start + int(candidates.counts[i])]
        name = images.classes[int(y[i])]
        for method, (_, predicted) in shown.items():
            guess, p = images.classes[predicted["y"][i]], predicted.get("p")
            caption = f"{method}: {name}" if guess == name else f"{method}: {name}, predicted {guess}"
            places, posterior = (None, None) if p is None else (boxes, p[start : start + len(boxes)])
            image, box = images.image(int(test[i])), boxes[predicted["h"][i]]
            drawn.append(draw_detection(image, box, truth[i], places, posterior, caption, size, guess == name))
    return contact_sheet(drawn, columns=len(shown))


def _fits(predictions: dict[str, Any], run: Run, problem: Problem, n_classes: int) -> bool:
    """Whether there is a class, a candidate and a posterior for each test sample of the run."""
    counts = problem.candidates.counts[run.division.parts(problem.y, problem.groups, problem.published)[1]].tolist()
    y, h, p = predictions["y"], predictions["h"], predictions.get("p")
    if not len(y) == len(h) == len(counts) or (p is not None and len(p) != sum(counts)):
        return False
    limits = [n_classes] * len(y) + counts
    return all(isinstance(k, int) and 0 <= k < limit for k, limit in zip([*y, *h], limits, strict=True))


# Colours of Okabe and Ito, which colour-blind readers can distinguish; markers and dashes distinguish the lines without colour.
STYLES: dict[str, dict[str, Any]] = {
    "LSVM": {"color": "#0072b2", "marker": "s", "linestyle": "--"},
    "ILSVM": {"color": "#d55e00", "marker": "^", "linestyle": "-."},
    "DISC": {"color": "#009e73", "marker": "o", "linestyle": "-", "linewidth": 2.6, "zorder": 4},
    "Supervised": {"color": "#7a7a7a", "marker": "x", "linestyle": ":"},
    "SPL": {"color": "#56b4e9", "marker": "v"},
    "EM": {"color": "#cc79a7", "marker": "D"},
    "M3E": {"color": "#8a6d00", "marker": "P"},
    "SoftDISC": {"color": "#000000", "marker": "*"},
}
DRAWN = ("LSVM", "ILSVM", "DISC", "Supervised")  # of many methods
DODGE = 0.035  # decades between the error bars of neighbouring methods, which would hide each other
MOST_TICKS, MOST_LINES = 9, 4


def draw_figure(figures: Mapping[str, tuple[Curves, Paper]]) -> Figure:
    """Title → the curves and the paper's numbers: a row of panels for each title, a panel for each loss. A star at the right edge is the
    paper's best test loss of the method of that colour, its bar the deviation.

    >>> nothing = pd.DataFrame({"mean": [], "std": []})
    >>> [axes.get_title() for axes in draw_figure({"Nothing yet": ({"zero_one": {"LSVM": nothing}}, {})}).axes]
    ['0/1 loss']
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with style():
        widest = max(len(curves) for curves, _ in figures.values())
        figure = Figure(figsize=(5.6 * widest + 0.6, 4.3 * len(figures) + 0.6), dpi=150, layout="constrained")
        lines: dict[str, Any] = {}
        for part, (title, (curves, paper)) in zip(figure.subfigures(len(figures), 1, squeeze=False).flat, figures.items(), strict=True):
            part.suptitle(title, fontsize=13)
            panels = part.subplots(1, len(curves), squeeze=False)[0]
            for axes, (loss, methods) in zip(panels, curves.items(), strict=True):
                _panel(axes, methods, paper.get(loss, {}), TITLES.get(loss, loss))
                lines |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
            if any(name in methods for loss, methods in curves.items() for name in paper.get(loss, {})):
                star: Any = {"marker": "*", "markersize": 12, "color": "white", "markeredgecolor": "black"}
                lines["best in the paper"] = Line2D([], [], linestyle="none", **star)
        if lines:
            figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=min(len(lines), 5), fontsize=11, frameon=False)
    return figure


def look_of(method: str) -> dict[str, Any]:
    """The colour, marker and line of a method: paler for the same method from another start, as in `DISC, random start`.

    >>> look_of("DISC, random start")["color"] == look_of("DISC")["color"], look_of("DISC, random start")["alpha"]
    (True, 0.45)
    """
    base, _, variant = method.partition(",")
    look = {"linestyle": "-"} | STYLES.get(base, {"color": "#e69f00", "marker": "<"})
    return look | {"alpha": 0.45, "markerfacecolor": "white"} if variant else look


def _panel(axes: Axes, methods: Mapping[str, pd.DataFrame], paper: Mapping[str, tuple[float, float]], name: str) -> None:
    axes.set_title(name, fontsize=12)
    axes.set_xlabel("C", fontsize=12)
    axes.set_ylabel("test loss, %", fontsize=12)
    axes.set_xscale("log")
    axes.tick_params(labelsize=11)
    tried = sorted({float(C) for points in methods.values() for C in points.index}) or [1.0]
    decades = max(math.log10(tried[-1] / tried[0]), 1.0)
    for i, (method, points) in enumerate(methods.items()):
        look = look_of(method)
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
