"""docs/RESULTS.md, written from results: a section for each figure, between markers."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from lvmdc.reporting import Table, contact_sheet, draw_detection
from lvmdc.reporting.page import escape, inline_image, page, png
from lvmdc.reproduction import store as sessions
from lvmdc.reproduction.chart import draw_chart, save_chart
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Protocol, Run
from lvmdc.reproduction.selection import Outcomes, curve
from lvmdc.reproduction.summary import Paper, Summary, compare, summarise
from lvmdc.reproduction.tables import TITLES, comparison_table, notes, point_text, runs_csv, summary_table
from lvmdc.storage.files import read_text, write_atomically
from lvmdc.vision.datasets.images import ImageSet

HEAD = """# Results

Written by `python scripts/reproduce.py figure=… publish=docs` from the runs themselves; edits between the markers are lost.
"""


def publish(folder: str | Path, name: str, section: str, chart: bytes | None = None) -> Path:
    """Write the section of that name into `RESULTS.md`, in the place of the one before or at the end, and its chart as `<name>.png`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as docs:
    ...     for text in ("first", "second"):
    ...         path = publish(docs, "figure_1", text, b"png")
    ...     "first" in path.read_text(), "second" in path.read_text()
    (False, True)
    """
    folder = Path(folder)
    path = folder / "RESULTS.md"
    text = read_text(path) if path.exists() else HEAD
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    written = f"{first}\n{section.strip()}\n{last}"
    if text.count(first) != text.count(last) or text.count(first) > 1 or text.find(last) < text.find(first):
        raise ValueError(f"{path} must hold {first} and {last} once, in this order, or not at all")
    before, there, rest = text.partition(first)
    text = before + written + rest.partition(last)[2] if there else f"{text.rstrip()}\n\n{written}\n"
    if chart is not None:
        write_atomically(folder / f"{name}.png", chart)
    write_atomically(path, text.encode())
    return path


# Test images as each method sees them, side by side.

Shown = Mapping[str, tuple[Run, Mapping[str, Any]]]  # method → its run in the first fold, and what that predicted


def draw_examples(shown: Shown, problem: Problem, images: ImageSet, count: int = 6, size: int = 256) -> Image.Image:
    """A sheet of test images of the first fold, a row each, a column a method: true box, predicted box, P_θ(h|x,y).

    Boxes and posteriors are those that the runs left in their results; a posterior all on one box is not drawn.
    """
    first = next(iter(shown.values()))[0]
    _, test = first.division.parts(problem.y, problem.groups)
    candidates, y, truth = problem.candidates.subset(test), problem.y[test], problem.truth[test]
    assert candidates.boxes is not None
    drawn = []
    for i in torch.linspace(0, len(test) - 1, min(len(test), count)).long().tolist():  # samples stand by class: some of each
        start = int(candidates.offsets[i])
        boxes = candidates.boxes[start : start + int(candidates.counts[i])]
        name = images.classes[int(y[i])]
        for method, (_, predicted) in shown.items():
            guess, p = images.classes[predicted["y"][i]], predicted.get("p")
            caption = f"{method}: {name}" if guess == name else f"{method}: {name}, taken for {guess}"
            places, belief = (None, None) if p is None else (boxes, p[start : start + len(boxes)])
            image, box = images.image(int(test[i])), boxes[predicted["h"][i]]
            drawn.append(draw_detection(image, box, truth[i], places, belief, caption, size, guess == name))
    return contact_sheet(drawn, columns=len(shown))


def write_examples(folder: Path, title: str, shown: Mapping[str, Shown], problem: Problem, images: ImageSet, count: int) -> None:
    """Write `examples_<loss>.png` for each loss, and `examples.html` with all of them."""
    sections = []
    for loss, own in shown.items():
        sheet = draw_examples(own, problem, images, count)
        write_atomically(folder / f"examples_{loss}.png", png(sheet))
        chosen = "; ".join(f"{method}: {point_text(run.point)}" for method, (run, _) in own.items())
        about = f"Test images of the first fold, at the hyperparameters of lowest mean test loss ({chosen})."
        name = TITLES.get(loss, loss)
        sections.append(f"<section>\n<h2>{escape(name)}</h2>\n<p>{escape(about)}</p>\n{inline_image(sheet, alt=name)}\n</section>")
    write_atomically(folder / "examples.html", page(title, "\n".join(sections)).encode())


# Everything that is made from results: CSV, figure, tables, images, and the section of docs/RESULTS.md.

log = logging.getLogger(__name__)


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

    @property
    def outcomes(self) -> Outcomes:
        """The measures of the runs that are done."""
        return {run: result["measures"] for run, result in self.results if result is not None}

    @property
    def summaries(self) -> list[Summary]:
        """What is reported of each method under each loss."""
        return summarise(self.protocol, self.outcomes, self.paper)

    def tables(self) -> list[Table]:
        """The results and, where methods are compared, the paired tests."""
        tests = [] if self.compare is None else compare(self.summaries, self.compare, self.against, self.protocol.fraction)
        return [summary_table(self.summaries), *([comparison_table(tests)] if tests else [])]

    def write(self, folder: Path) -> None:
        """`runs.csv`, the figure as PNG and PDF, `table.md` and `table.html`."""
        outcomes, folds = self.outcomes, self.protocol.folds
        write_atomically(folder / "runs.csv", runs_csv(self.results).encode())
        curves = {loss: {m.name: curve(outcomes, m.name, loss, folds) for m in self.protocol.methods} for loss in self.protocol.losses}
        save_chart(draw_chart(curves, self.paper, self.title), folder / self.name)
        tables, told = self.tables(), self.remarks()
        text = "\n\n".join(table.markdown() for table in tables)
        remarks = "\n".join(f"- {note}" for note in told)
        write_atomically(folder / "table.md", f"{text}\n\n{remarks}\n".encode())
        with Image.open(folder / f"{self.name}.png") as chart:
            image = inline_image(chart, alt=self.title).replace("<img ", '<img style="max-width: 100%; height: auto" ')
        parts = [image, *(f'<div class="wide">{table.html()}</div>' for table in tables)]
        body = "\n".join([*parts, f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in told)}</ul>"])
        write_atomically(folder / "table.html", page(self.title, body).encode())

    def write_examples(self, folder: Path, problem: Problem, images: ImageSet, count: int) -> None:
        """Images of the first fold at the best point, for the compared method and those that it is compared with."""
        methods = [*self.against, *([self.compare] if self.compare else [])] or [m.name for m in self.protocol.methods]
        found, shown = dict(self.results), defaultdict[str, dict[str, Any]](dict)
        for summary in self.summaries:
            if summary.best is not None and summary.method in methods:
                run = summary.best.runs[0]
                result = found[run]
                if result is not None and "predictions" in result:
                    if not _fit(result["predictions"], run, problem, len(images.classes)):
                        log.warning("what the result %s predicts does not fit the data, and is not drawn", run.key)
                        continue
                    shown[summary.loss][summary.method] = (run, result["predictions"])
        if count and shown:
            write_examples(folder, f"{self.title}: examples", shown, problem, images, count)

    def remarks(self) -> list[str]:
        """The notes of the protocol, and what must be known of these runs."""
        done = [result for _, result in self.results if result is not None]
        lacking = len(self.results) - len(done)
        unfinished = sum(not result.get("converged", False) for result in done)
        told = [self.about, *notes(self.protocol)]
        if unfinished:
            told.append(f"{unfinished} of {len(done)} runs stopped at max_iter before they converged; runs.csv tells which.")
        if lacking:
            told.append(f"{lacking} of {len(self.results)} runs are not done; points that lack a fold are left out.")
        return told

    def section(self, folder: Path) -> str:
        """What docs/RESULTS.md says of the figure."""
        took = sessions.total(folder)
        tables = "\n\n".join(table.markdown() for table in self.tables())
        remarks = "\n".join(f"- {note}" for note in [*self.remarks(), *([] if took is None else [f"It took {took}."])])
        head = f"## {self.title}\n\n{date.today()}, `{self.command}`"
        return f"{head}\n\n![{self.title}]({self.name}.png)\n\n{tables}\n\n{remarks}"


def _fit(predictions: dict[str, Any], run: Run, problem: Problem, n_classes: int) -> bool:
    """Whether there is a class, a candidate and a posterior for each test sample of the run."""
    counts = problem.candidates.counts[run.division.parts(problem.y, problem.groups)[1]].tolist()
    y, h, p = predictions["y"], predictions["h"], predictions.get("p")
    if not len(y) == len(h) == len(counts) or (p is not None and len(p) != sum(counts)):
        return False
    return all(isinstance(k, int) and 0 <= k < n_classes for k in y) and all(
        isinstance(i, int) and 0 <= i < m for i, m in zip(h, counts, strict=True)
    )
