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
from lvmdc.reproduction.protocol import STRENGTH, Protocol, Run, Settings

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
    """What is reported of one method under one loss: its runs, one per fold, by both ways to choose hyperparameters.

    Args:
        searched: names of the grid.
        noise: runs that differ from the reported ones in the last digit of the features alone; None: there are none.
        known_h: whether it trains with the true h.
    """

    method: str
    loss: str
    best: pd.DataFrame | None
    validated: pd.DataFrame | None
    paper: tuple[float, float] | None = None
    searched: Sequence[str] = ("C",)
    noise: pd.DataFrame | None = None
    known_h: bool = False

    @property
    def reported(self) -> pd.DataFrame | None:
        """The runs at the settings chosen on validation data or, without any, at the best on the test parts."""
        return self.best if self.validated is None else self.validated

    @property
    def spread(self) -> float | None:
        """How far the test loss moves with the last digit of the features: its range over all copies of a run, the mean over the folds."""
        if self.noise is None or self.reported is None or not len(self.noise):
            return None
        losses = pd.concat([self.reported[["fold", "loss"]], self.noise[["fold", "loss"]]]).groupby("fold")["loss"]
        return float((losses.max() - losses.min()).mean())


def summarise(protocol: Protocol, runs: pd.DataFrame, paper: Paper, noise: pd.DataFrame | None = None) -> list[Summary]:
    """One summary for each loss and method; `noise` are runs with noise in the last digit.

    >>> summarise(Protocol([], {}), runs_frame([]), {})
    []
    """
    found = []
    for loss in protocol.losses:
        for method in protocol.methods:
            own = runs[(runs["method"] == method.name) & (runs["loss_name"] == loss)]
            validated = chosen_by_validation(own, protocol.folds, protocol.inner_folds) if protocol.inner_folds else None
            published = paper.get(loss, {}).get(method.name)
            near = (
                None if noise is None else noise[(noise["method"] == method.name) & (noise["loss_name"] == loss) & (noise["done"] == "yes")]
            )
            best = best_on_test(own, protocol.folds)
            found.append(Summary(method.name, loss, best, validated, published, sorted(method.grid), near, method.known_h))
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


# ---- how far P_θ can be believed -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """How often the most probable h is right, against the probability that P_θ(h | x, y) gives it.

    `bins` have (mean probability, share that is right, number of samples) each; `error` is the expected calibration error, the mean
    distance of the two over all samples; `of_truth` is the mean probability of the true h.
    """

    bins: Sequence[tuple[float, float, int]]
    error: float
    of_truth: float


def calibrate(posteriors: Sequence[Mapping[str, Sequence[float]]], n_bins: int = 10) -> Calibration | None:
    """The calibration over the samples of several runs, each with `confidence`, `right` and `of_truth`; None where there are none.

    >>> calibrate([{"confidence": [0.9, 0.8], "right": [1.0, 0.0], "of_truth": [0.9, 0.1]}], n_bins=2)
    Calibration(bins=[(0.85, 0.5, 2)], error=0.35, of_truth=0.5)
    """
    if not posteriors:
        return None
    confidence, right, truth = (np.concatenate([np.asarray(p[k], float) for p in posteriors]) for k in ("confidence", "right", "of_truth"))
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    parts = [place == i for i in range(n_bins) if (place == i).any()]
    bins = [(round(float(confidence[p].mean()), 6), round(float(right[p].mean()), 6), int(p.sum())) for p in parts]
    error = sum(n * abs(c - r) for c, r, n in bins) / len(confidence)
    return Calibration(bins, round(error, 6), round(float(truth.mean()), 6))


# ---- tables ----------------------------------------------------------------------------------------------------------


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
    return MISSING if runs is None else "; ".join(f"{name} = {', '.join(map(_short, runs[name].tolist()))}" for name in names)


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
