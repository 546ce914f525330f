"""Tables of the results of a figure, with the paper's numbers, and what the numbers are and are not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lvmdc.reporting import Table
from lvmdc.reporting.table import MISSING
from lvmdc.reproduction.protocol import STRENGTH, Protocol
from lvmdc.reproduction.results import PairedTest, Summary, paired_test, short

TITLES = {"zero_one": "0/1 loss", "overlap": "overlap loss", "label": "label loss"}


def summary_table(summaries: Sequence[Summary], prior: str | None = None) -> Table:
    """Method × loss, in percent, ± over the folds: the test loss at the settings chosen on validation data and what else was measured
    there; the best on the test parts; the paper's loss. Columns without any value are left out.

    Args:
        prior: the name of the prior of h; None: there is none.

    >>> summary_table([Summary("LSVM", "zero_one", None, None, (64.82, 4.96))]).cells
    [['0/1 loss', 'LSVM', '64.82 ± 4.96']]
    """
    columns = {
        "loss": [TITLES.get(s.loss, s.loss) for s in summaries],
        "method": [s.method for s in summaries],
        "start": [start_text(s) for s in summaries],
        "prior": [prior_text(s, prior) for s in summaries],
        "chosen on validation": [percent(s.validated, "loss") for s in summaries],
        "at, by fold": [_points(s.validated, [n for n in s.searched if n not in ("init", STRENGTH)]) for s in summaries],
        "spread": [MISSING if s.spread is None else f"{100 * s.spread:.2f}" for s in summaries],
        "class error": [percent(s.reported, "error") for s in summaries],
        "CorLoc": [percent(s.reported, "corloc") for s in summaries],
        "wrong h": [percent(s.reported, "latent_error") for s in summaries],
        "against the annotated box": [percent(s.reported, "loss_annotated") for s in summaries],
        "best on test": [percent(s.best, "loss") for s in summaries],
        "at": [MISSING if s.best is None else str(s.best["point"].iloc[0]) for s in summaries],
        "paper": [MISSING if s.paper is None else f"{s.paper[0]:.2f} ± {s.paper[1]:.2f}" for s in summaries],
    }
    shown = {name: cells for name, cells in columns.items() if any(cell != MISSING for cell in cells)}
    text = ("loss", "method", "start", "prior", "at, by fold", "at")
    return Table(list(shown), [list(row) for row in zip(*shown.values(), strict=True)], [name not in text for name in shown])


def start_text(summary: Summary) -> str:
    """Where h started, and in how many folds where validation chose differently.

    >>> start_text(Summary("Supervised", "zero_one", None, None, known_h=True))
    'true h'
    """
    runs = summary.reported
    if summary.known_h or runs is None or "init" not in runs or runs["init"].isna().all():
        return "true h" if summary.known_h else MISSING
    counts = runs["init"].value_counts(sort=False)
    if len(counts) > 1:
        return ", ".join(f"{value} {count}" for value, count in counts.items())
    several = runs["n_init"].max() if "n_init" in runs else 1
    return f"{counts.index[0]}, best of {several:.0f}" if several > 1 else str(counts.index[0])


def prior_text(summary: Summary, name: str | None) -> str:
    """The prior, and in how many folds validation chose it; `name` is that of the figure's prior, None: there is none.

    >>> prior_text(Summary("LSVM", "zero_one", None, None), None)
    '–'
    """
    runs = summary.reported
    if name is None or summary.known_h or runs is None:
        return MISSING
    if STRENGTH not in runs or runs[STRENGTH].isna().all():
        return name
    used = int((runs[STRENGTH] > 0).sum())
    return name if used == len(runs) else "none" if used == 0 else f"{name} {used}, none {len(runs) - used}"


def comparison_table(summaries: Sequence[Summary], method: str, others: Sequence[str], test_share: float) -> Table:
    """Paired tests of a method against others over the folds, in which `test_share` of the samples were for the test.

    >>> comparison_table([], "DISC", ["LSVM"], 0.4).heads
    ['loss', 'compared', 'gap, best on test', 'p', 'p corrected', 'folds']
    """
    by_name = {(s.loss, s.method): s for s in summaries}
    validated = any(s.validated is not None for s in summaries)
    gaps = ["gap, best on test", *(["gap, chosen on validation"] if validated else [])]
    heads = ["loss", "compared", *(head for gap in gaps for head in (gap, "p", "p corrected")), "folds"]
    cells = []
    for loss in dict.fromkeys(s.loss for s in summaries):
        for other in others:
            if (loss, method) not in by_name or (loss, other) not in by_name:
                continue
            one, two = by_name[loss, method], by_name[loss, other]
            row, folds = [TITLES.get(loss, loss), f"{method} − {other}"], MISSING
            for a, b in [(one.best, two.best), *([(one.validated, two.validated)] if validated else [])]:
                if a is None or b is None:
                    row += [MISSING] * 3
                else:
                    test = paired_test(a["loss"].to_numpy(float), b["loss"].to_numpy(float), test_share)
                    row += [_gap(test), p_value(test.p), p_value(test.corrected)]
                    folds = str(test.n)
            cells.append([*row, folds])
    return Table(heads, cells, [False, False, *[True] * (len(heads) - 2)])


def percent(runs: pd.DataFrame | None, measure: str) -> str:
    """Mean ± standard deviation (n − 1) over the folds, in percent.

    >>> percent(pd.DataFrame({"loss": [0.25, 0.35]}), "loss"), percent(pd.DataFrame({"loss": [0.25]}), "loss"), percent(None, "loss")
    ('30.00 ± 7.07', '25.00', '–')
    """
    if runs is None or measure not in runs or runs[measure].isna().any():
        return MISSING
    values = 100 * runs[measure]
    return f"{values.mean():.2f}" + (f" ± {values.std():.2f}" if len(values) > 1 else "")


def p_value(p: float | None) -> str:
    """A probability, short.

    >>> p_value(0.0213), p_value(0.00004), p_value(None)
    ('0.021', '4e-05', '–')
    """
    return MISSING if p is None or math.isnan(p) else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def _gap(test: PairedTest) -> str:
    spread = "" if test.deviation is None else f" ± {100 * test.deviation:.2f}"
    return f"{100 * test.difference:+.2f}{spread}".replace("-", "−")


def _points(runs: pd.DataFrame | None, names: Sequence[str]) -> str:
    """What was chosen in each fold: names once, values by fold."""
    return MISSING if runs is None else "; ".join(f"{name} = {', '.join(map(short, runs[name].tolist()))}" for name in names)


def notes(protocol: Protocol, test_share: float = 0.4, published: bool = False) -> list[str]:
    """What the numbers of a protocol are and are not, in sentences for below the tables.

    >>> notes(Protocol([], {}, folds=2))[0].partition(":")[0]
    'Test loss in percent, mean ± standard deviation over 2 folds'
    """
    train, test = round(100 * (1 - test_share)), round(100 * test_share)
    how = "the published divisions" if published else "independent divisions by class"
    found = [
        f"Test loss in percent, mean ± standard deviation over {protocol.folds} folds: {how}, {train} % for training, {test} % for the"
        " test, near duplicates, where they are known, on one side.",
        "Best on test: the point of the grid with the lowest mean test loss, as in the paper. The test parts both select and measure, so"
        " these numbers are optimistic, for every method.",
    ]
    if protocol.inner_folds:
        found.append(
            "Chosen on validation: for each fold, the point with the lowest mean loss over"
            f" {protocol.inner_folds} division{'s' * (protocol.inner_folds > 1)} of its training part alone"
            f" ({round(100 * protocol.inner_fraction)} % of every class for training, the rest for validation), then trained on the"
            " complete training part."
        )
    found += [
        "For images, the true h is the candidate of best overlap with the annotated box: a loss of 0 can be reached, and the overlap loss"
        " is measured against that candidate's box. Against the annotated box itself, candidates that miss it cost every method the same.",
        "CorLoc: the share of test images whose predicted box overlaps the annotated one by at least half, whatever its class. Wrong h: the"
        " share of test samples with another h than the true one. Spread: the range of the test loss, in points, over copies of a run whose"
        " features differ in the last digit (× (1 ± 1e-6)), the mean over the folds.",
        f"p: two-sided paired t-test over n = {protocol.folds} folds, the paper's test. The folds share samples, so it is optimistic;"
        " p corrected widens the variance for that (Nadeau and Bengio, 2003).",
    ]
    return found
