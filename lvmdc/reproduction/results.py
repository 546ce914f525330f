"""Results of many runs: one tidy table, the hyperparameters that are reported, paired tests, and tables with the paper's numbers.

Hyperparameters are reported in two ways: the best on the test parts, as in the paper, or those chosen on validation folds.

Nadeau, Bengio: Inference for the generalization error. Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lvmdc.reporting import Table
from lvmdc.reporting.table import MISSING
from lvmdc.reproduction.protocol import Protocol, Run, Settings

Paper = Mapping[str, Mapping[str, tuple[float, float]]]  # loss → method → mean and deviation, in percent

TITLES = {"zero_one": "0/1 loss", "overlap": "overlap loss", "label": "label loss"}


def runs_frame(results: Iterable[tuple[Run, Mapping[str, Any] | None]]) -> pd.DataFrame:
    """One row per run: what it is, whether it is done, its measures as fractions.

    >>> from lvmdc.reproduction import Division
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", "{}", (("C", 10.0),), (("C", 10.0),), Division(fold=0), "data")
    >>> runs_frame([(run, {"measures": {"loss": 0.5}})])[["method", "loss_name", "fold", "point", "done", "loss"]].values.tolist()
    [['LSVM', 'zero_one', 0, 'C = 10', 'yes', 0.5]]
    """
    rows = []
    for run, result in results:
        row = {"key": run.key, "method": run.method, "loss_name": run.loss, "fold": run.division.fold, "inner": run.division.inner}
        row |= {"measured_on": "validation" if run.inner else "test", "point": point_text(run.point), **dict(run.settings)}
        row |= {"done": "no", "loss": math.nan} if result is None else {"done": "yes", **result["measures"]}
        if result is not None:
            row |= {"converged": result.get("converged"), "warnings": " | ".join(result.get("warnings", []))}
        rows.append(row)
    frame = pd.DataFrame(rows)
    if not len(frame):
        return pd.DataFrame(columns=["method", "loss_name", "fold", "inner", "measured_on", "point", "C", "done", "loss"])
    columns = [name for name in frame.columns if name not in ("converged", "warnings")]
    return frame.reindex(columns=[*columns, "converged", "warnings"]).astype({"inner": "Int64"})


def point_text(point: Settings) -> str:
    """Hyperparameters as one would write them.

    >>> point_text((("C", 10.0), ("J", 0.001)))
    'C = 10, J = 0.001'
    """
    return ", ".join(f"{name} = {_short(value)}" for name, value in point)


def _short(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


# ---- which hyperparameters are reported ------------------------------------------------------------------------------


def best_on_test(runs: pd.DataFrame, folds: int) -> pd.DataFrame | None:
    """The runs of the point of lowest mean test loss, the first of several: how the paper picks C, and therefore optimistic.

    Args:
        runs: those of one method under one loss.
        folds: how many folds a point must have to be considered.

    >>> best_on_test(runs_frame([]), folds=5) is None
    True
    """
    tests = _done(runs, "test")
    losses = tests.groupby("point", sort=False)["loss"].agg(["mean", "size"])
    means = losses.loc[losses["size"] == folds, "mean"]
    return None if means.empty else tests[tests["point"] == means.idxmin()].sort_values("fold")


def chosen_by_validation(runs: pd.DataFrame, folds: int, inner_folds: int) -> pd.DataFrame | None:
    """For each fold, the run at the point of lowest mean loss over divisions of its training part, the first of several.

    It learned from the complete training part, test losses play no role. None where runs are missing.

    >>> chosen_by_validation(runs_frame([]), folds=5, inner_folds=3) is None
    True
    """
    tests = _done(runs, "test").set_index(["fold", "point"], drop=False)
    losses = _done(runs, "validation").groupby(["fold", "point"], sort=False)["loss"].agg(["mean", "size"])
    means = losses.loc[(losses["size"] == inner_folds) & losses.index.isin(tests.index), "mean"]
    chosen = [means[means.index.get_level_values("fold") == fold] for fold in range(folds)]
    return None if any(part.empty for part in chosen) else tests.loc[[part.idxmin() for part in chosen]].reset_index(drop=True)


def curve(runs: pd.DataFrame, folds: int) -> pd.DataFrame:
    """Columns `mean` and `std` of the test loss for each C; where the grid has other arguments too, the best of them on the test parts.

    >>> len(curve(runs_frame([]), folds=5))
    0
    """
    losses = _done(runs, "test").groupby(["C", "point"])["loss"].agg(["mean", "std", "size"])
    losses = losses[losses["size"] == folds].sort_values("mean", kind="stable")
    return losses.reset_index().drop_duplicates("C").set_index("C")[["mean", "std"]].sort_index()


def _done(runs: pd.DataFrame, part: str) -> pd.DataFrame:
    return runs[(runs["done"] == "yes") & (runs["measured_on"] == part)]


@dataclass(frozen=True)
class Summary:
    """What is reported of one method under one loss: its runs, one per fold, by both ways to choose hyperparameters."""

    method: str
    loss: str
    best: pd.DataFrame | None
    validated: pd.DataFrame | None
    paper: tuple[float, float] | None = None
    searched: Sequence[str] = ("C",)


def summarise(protocol: Protocol, runs: pd.DataFrame, paper: Paper) -> list[Summary]:
    """One summary for each loss and method.

    >>> summarise(Protocol([], {}), runs_frame([]), {})
    []
    """
    found = []
    for loss in protocol.losses:
        for method in protocol.methods:
            own = runs[(runs["method"] == method.name) & (runs["loss_name"] == loss)]
            validated = chosen_by_validation(own, protocol.folds, protocol.inner_folds) if protocol.inner_folds else None
            published = paper.get(loss, {}).get(method.name)
            found.append(Summary(method.name, loss, best_on_test(own, protocol.folds), validated, published, sorted(method.grid)))
    return found


# ---- paired tests ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedTest:
    """The mean difference of two methods over the same folds, and the probability of a larger one by chance.

    `p` is that of the paired t-test, which the paper uses. It assumes independent folds, but their training parts share samples, so it is
    optimistic; `corrected` is that of `corrected_p`. Both are None where nothing can be tested.

    >>> test = paired_test(np.array([0.5, 0.6, 0.7]), np.array([0.7, 0.7, 0.9]), test_share=0.4)
    >>> round(test.difference, 3), round(test.p, 3), round(test.corrected, 3), test.n
    (-0.167, 0.038, 0.102, 3)
    """

    difference: float
    deviation: float | None
    p: float | None
    corrected: float | None
    n: int


def paired_test(a: np.ndarray, b: np.ndarray, test_share: float = 0.4) -> PairedTest:
    """The two-sided test of a − b, (n,) losses on the same folds, of which `test_share` of the samples were for the test.

    >>> paired_test(np.array([0.5]), np.array([0.7])).p is None
    True
    """
    from scipy import stats

    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ValueError(f"a and b must have one shape (n,), but they have shapes {a.shape} and {b.shape}")
    n, difference = len(a), float((a - b).mean())
    deviation = float((a - b).std(ddof=1)) if n > 1 else None
    if not deviation or deviation < 1e-12:  # a single fold, or the same gap in all: there is no spread to compare with
        return PairedTest(difference, deviation, None, None, n)
    return PairedTest(difference, deviation, float(stats.ttest_rel(a, b).pvalue), corrected_p(difference, deviation, n, test_share), n)


def corrected_p(difference: float, deviation: float, n: int, test_share: float) -> float:
    """The p-value of Nadeau and Bengio's corrected resampled t-test: t = d / (s · √(1/n + n_test/n_train)), n − 1 degrees of freedom.

    >>> round(corrected_p(-0.167, 0.058, n=3, test_share=0.4), 2)
    0.1
    """
    from scipy import stats

    t = difference / (deviation * math.sqrt(1 / n + test_share / (1 - test_share)))
    return float(2 * stats.t.sf(abs(t), n - 1))


# ---- tables ----------------------------------------------------------------------------------------------------------


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
        best, chosen = s.best, s.validated
        row = [TITLES.get(s.loss, s.loss), s.method, MISSING if s.paper is None else f"{s.paper[0]:.2f} ± {s.paper[1]:.2f}"]
        row += [percent(best, "loss"), MISSING if best is None else best["point"].iloc[0], percent(best, "error"), percent(best, "corloc")]
        if any_validated:
            row += [percent(chosen, "loss"), _points(chosen, s.searched), percent(chosen, "error"), percent(chosen, "corloc")]
        cells.append([*row, percent(chosen if any_validated else best, "loss_annotated")])
    return Table(heads, cells, [False, False, *[head not in ("at", "at, by fold") for head in heads[2:]]])


def comparison_table(summaries: Sequence[Summary], method: str, others: Sequence[str], fraction: float) -> Table:
    """Paired tests of a method against others over the folds, of which `fraction` of the samples trained.

    >>> comparison_table([], "DISC", ["LSVM"], 0.6).heads
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
                    test = paired_test(a["loss"].to_numpy(float), b["loss"].to_numpy(float), 1 - fraction)
                    row += [_gap(test), p_value(test.p), p_value(test.corrected)]
                    folds = str(test.n)
            cells.append([*row, folds])
    return Table(heads, cells, [False, False, *[True] * (len(heads) - 2)])


def percent(runs: pd.DataFrame | None, measure: str) -> str:
    """Mean ± standard deviation (n − 1) over the folds, in percent.

    >>> percent(pd.DataFrame({"loss": [0.25, 0.35]}), "loss"), percent(pd.DataFrame({"loss": [0.25]}), "loss"), percent(None, "loss")
    ('30.00 ± 7.07', '25.00', '–')
    """
    if runs is None:
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
    return MISSING if runs is None else "; ".join(f"{name} = {', '.join(map(_short, runs[name].tolist()))}" for name in names)


def notes(protocol: Protocol) -> list[str]:
    """What the numbers of a protocol are and are not, in sentences for below the tables.

    >>> notes(Protocol([], {}, folds=2))[0].partition(":")[0]
    'Test loss in percent, mean ± standard deviation over 2 folds'
    """
    train, test = round(100 * protocol.fraction), round(100 * (1 - protocol.fraction))
    found = [
        f"Test loss in percent, mean ± standard deviation over {protocol.folds} folds: independent divisions by class,"
        f" {train} % for training, {test} % for the test, near duplicates, where they are known, on one side.",
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
        "The true h is the candidate of best overlap with the annotated box: a loss of 0 can be reached, and the overlap loss is measured"
        " against that candidate's box. The last column measures the same predictions against the annotated box itself, where candidates"
        " that miss it cost every method the same.",
        "CorLoc: the share of test images whose predicted box overlaps the annotated one by at least half, whatever its class.",
        f"p: two-sided paired t-test over n = {protocol.folds} folds, the paper's test. The folds share samples, so it is optimistic;"
        " p corrected widens the variance for that (Nadeau and Bengio, 2003).",
    ]
    starts = {(str(m.settings.get("init", "random")), int(m.settings.get("n_init") or 1)) for m in protocol.methods}
    if len(starts) == 1 and not any("init" in m.grid or "n_init" in m.grid for m in protocol.methods):
        init, count = starts.pop()
        several = f"the lowest training objective of {count} random starts is kept" if count > 1 else "one random start"
        found.append(
            f"Starts: {several}, the same for every method." if init == "random" else f"Every method starts from h by init = {init}."
        )
    return found
