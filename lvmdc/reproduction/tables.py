"""Numbers beside the paper's: the table of results and that of the paired tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lvmdc.reporting import Table
from lvmdc.reporting.table import MISSING
from lvmdc.reproduction.choice import Choice
from lvmdc.reproduction.paired import PairedTest
from lvmdc.reproduction.run import Plain, Settings
from lvmdc.reproduction.summary import Comparison, Summary

TITLES = {"zero_one": "0/1 loss", "overlap": "overlap loss", "label": "label loss"}


def summary_table(summaries: Sequence[Summary]) -> Table:
    """Method × loss: the paper's loss, ours by both ways to choose, and what else was measured; all in percent, ± over the folds.

    >>> summary_table([Summary("LSVM", "zero_one", None, None, (64.82, 4.96))]).cells[0][:4]
    ['0/1 loss', 'LSVM', '64.82 ± 4.96', '–']
    """
    heads = ["loss", "method", "paper", "best on test", "at", "class error", "CorLoc"]
    any_validated = any(s.validated is not None for s in summaries)
    heads += ["chosen on validation", "at, by fold", "class error", "CorLoc"] if any_validated else []
    heads += ["against the annotated box"]
    cells = []
    for s in summaries:
        paper = MISSING if s.paper is None else f"{s.paper[0]:.2f} ± {s.paper[1]:.2f}"
        best, chosen = s.best, s.validated
        row = [TITLES.get(s.loss, s.loss), s.method, paper, percent(best, "loss"), _point(best), percent(best, "error")]
        row += [percent(best, "corloc")]
        if any_validated:
            row += [percent(chosen, "loss"), _points(chosen), percent(chosen, "error"), percent(chosen, "corloc")]
        cells.append([*row, percent(chosen if any_validated else best, "loss_annotated")])
    return Table(heads, cells, [False, False, *[head not in ("at", "at, by fold") for head in heads[2:]]])


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """The gaps and their p-values: of the t-test that the paper uses, and corrected for folds that share samples."""
    kinds = {"best": "gap, best on test", "validated": "gap, chosen on validation"}
    kinds = {kind: head for kind, head in kinds.items() if kind == "best" or any(c.tests.get(kind) is not None for c in comparisons)}
    heads = ["loss", "compared", *(head for gap in kinds.values() for head in (gap, "p", "p corrected")), "folds"]
    cells = []
    for c in comparisons:
        row = [TITLES.get(c.loss, c.loss), f"{c.method} − {c.other}"]
        for kind in kinds:
            test = c.tests.get(kind)
            row += [MISSING] * 3 if test is None else [_gap(test), p_value(test.p), p_value(test.corrected)]
        counts = [str(test.n) for test in c.tests.values() if test is not None]
        cells.append([*row, counts[0] if counts else MISSING])
    return Table(heads, cells, [False, False, *[True] * (len(heads) - 2)])


def percent(choice: Choice | None, measure: str) -> str:
    """Mean ± deviation over the folds, in percent.

    >>> percent(Choice([], [{"loss": 0.25}]), "loss")
    '25.00'
    """
    if choice is None:
        return MISSING
    deviation = choice.deviation(measure)
    return f"{100 * choice.mean(measure):.2f}" + ("" if deviation is None else f" ± {100 * deviation:.2f}")


def p_value(p: float | None) -> str:
    """A probability, short.

    >>> p_value(0.0213), p_value(0.00004), p_value(None)
    ('0.021', '4e-05', '–')
    """
    return MISSING if p is None or math.isnan(p) else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def point_text(point: Settings) -> str:
    """Hyperparameters as one would write them.

    >>> point_text((("C", 10.0), ("J", 0.001)))
    'C = 10, J = 0.001'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in point)


def _value(value: Plain) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _gap(test: PairedTest) -> str:
    spread = "" if test.deviation is None else f" ± {100 * test.deviation:.2f}"
    return f"{100 * test.difference:+.2f}{spread}".replace("-", "−")


def _point(choice: Choice | None) -> str:
    return MISSING if choice is None else point_text(choice.points[0])


def _points(choice: Choice | None) -> str:
    """What was chosen in each fold: names once, values by fold."""
    if choice is None:
        return MISSING
    names = [name for name, _ in choice.points[0]]
    return "; ".join(f"{name} = {', '.join(_value(dict(point)[name]) for point in choice.points)}" for name in names)
