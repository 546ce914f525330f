"""All runs in one tidy CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

from lvmdc.reporting import Table
from lvmdc.reporting.table import MISSING
from lvmdc.reproduction.protocol import Plain, Protocol, Run, Settings
from lvmdc.reproduction.selection import Choice
from lvmdc.reproduction.summary import Comparison, PairedTest, Summary


def runs_csv(rows: Iterable[tuple[Run, Mapping[str, object] | None]]) -> str:
    """One line for every run: what it was, whether it is done, its measures as fractions.

    >>> from lvmdc.reproduction import Division
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", "{}", (("C", 1.0),), (("C", 1.0),), Division(fold=0), "data")
    >>> print(runs_csv([(run, {"measures": {"loss": 0.5}, "converged": True})]).splitlines()[1].partition(",")[2])
    LSVM,zero_one,0,,test,1.0,yes,0.5,True,
    """
    listed = list(rows)
    names = list(dict.fromkeys(name for run, _ in listed for name, _ in run.settings))
    measures = list(dict.fromkeys(name for _, result in listed if result for name in _measures(result)))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["key", "method", "loss_name", "fold", "inner", "measured_on", *names, "done", *measures, "converged", "warnings"])
    for run, result in listed:
        division, settings, found = run.division, dict(run.settings), _measures(result) if result else {}
        what = [run.key, run.method, run.loss, division.fold, "" if division.inner is None else division.inner]
        what += ["validation" if run.inner else "test", *(settings.get(name, "") for name in names), "yes" if result else "no"]
        warned = result.get("warnings", []) if result else []
        assert isinstance(warned, list)
        writer.writerow(
            [*what, *(found.get(name, "") for name in measures), result.get("converged", "") if result else "", " | ".join(warned)]
        )
    return file.getvalue()


def _measures(result: Mapping[str, object]) -> Mapping[str, object]:
    measures = result["measures"]
    assert isinstance(measures, Mapping)
    return measures


# Numbers beside the paper's: the table of results and that of the paired tests.

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


# What the numbers are and are not, in sentences under every table.


def notes(protocol: Protocol) -> list[str]:
    """How the numbers of a protocol came about.

    >>> notes(Protocol([], {}, folds=2))[0].partition(":")[0]
    'Test loss in percent, mean ± standard deviation over 2 folds'
    """
    train, test = round(100 * protocol.fraction), round(100 * (1 - protocol.fraction))
    told = [
        f"Test loss in percent, mean ± standard deviation over {protocol.folds} folds: independent divisions by class,"
        f" {train} % for training, {test} % for the test, near duplicates, where they are known, on one side.",
        "Best on test: the point of the grid with the lowest mean test loss, as in the paper. The test parts both pick and measure, so"
        " these numbers are optimistic, for every method.",
    ]
    if protocol.inner_folds:
        told.append(
            "Chosen on validation: for each fold, the point with the lowest mean loss over"
            f" {protocol.inner_folds} division{'s' * (protocol.inner_folds > 1)} of its training part alone"
            f" ({round(100 * protocol.inner_fraction)} % of every class learn, the rest validates); reported is what was then learned from"
            " the whole training part."
        )
    told += [
        "The true h is the candidate of best overlap with the annotated box: a loss of 0 can be reached, and the overlap loss is measured"
        " against that candidate's box. The last column measures the same predictions against the annotated box itself, where candidates"
        " that miss it cost every method alike.",
        "CorLoc: the share of test images whose predicted box overlaps the annotated one by at least half, whatever its class.",
        f"p: two-sided paired t-test over n = {protocol.folds} folds, the paper's test. The folds share samples, so it is optimistic;"
        " p corrected widens the variance for that (Nadeau and Bengio, 2003).",
    ]
    if protocol.path:
        told.append("Each training starts where that of the next smaller C ended, the first one anew.")
    starts = _starts(protocol)
    return [*told, starts] if starts else told


def _starts(protocol: Protocol) -> str:
    kept = {(str(m.settings.get("init", "random")), int(m.settings.get("n_init") or 1)) for m in protocol.methods}
    if len(kept) != 1 or any("init" in m.grid or "n_init" in m.grid for m in protocol.methods):
        return ""
    init, count = kept.pop()
    if init != "random":
        return f"Every method starts from h by init = {init}."
    several = f"the lowest training objective of {count} random starts is kept" if count > 1 else "one random start"
    return f"Starts: {several}, the same for every method."
