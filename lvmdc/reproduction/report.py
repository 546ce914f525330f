"""Everything that is made from results: CSV, figure, tables, pictures, and the section of docs/RESULTS.md."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from PIL import Image

from lvmdc.data.pictures import PictureSet
from lvmdc.reporting import Table
from lvmdc.reporting.files import write_atomically
from lvmdc.reporting.page import escape, inline_picture, page
from lvmdc.reproduction import sessions
from lvmdc.reproduction.chart import draw_chart, save_chart
from lvmdc.reproduction.choice import Outcomes, curve
from lvmdc.reproduction.examples import write_examples
from lvmdc.reproduction.notes import notes
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Protocol
from lvmdc.reproduction.run import Run
from lvmdc.reproduction.summary import Paper, Summary, compare, summarise
from lvmdc.reproduction.tables import comparison_table, summary_table
from lvmdc.reproduction.tidy import runs_csv

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
            picture = inline_picture(chart, alt=self.title).replace("<img ", '<img style="max-width: 100%; height: auto" ')
        parts = [picture, *(f'<div class="wide">{table.html()}</div>' for table in tables)]
        body = "\n".join([*parts, f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in told)}</ul>"])
        write_atomically(folder / "table.html", page(self.title, body).encode())

    def write_examples(self, folder: Path, problem: Problem, pictures: PictureSet, count: int) -> None:
        """Pictures of the first fold at the best point, for the compared method and those that it is compared with."""
        methods = [*self.against, *([self.compare] if self.compare else [])] or [m.name for m in self.protocol.methods]
        found, shown = dict(self.results), defaultdict[str, dict[str, Any]](dict)
        for summary in self.summaries:
            if summary.best is not None and summary.method in methods:
                run = summary.best.runs[0]
                result = found[run]
                if result is not None and "predictions" in result:
                    if not _fit(result["predictions"], run, problem, len(pictures.classes)):
                        log.warning("what the result %s predicts does not fit the data, and is not drawn", run.key)
                        continue
                    shown[summary.loss][summary.method] = (run, result["predictions"])
        if count and shown:
            write_examples(folder, f"{self.title}: examples", shown, problem, pictures, count)

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
