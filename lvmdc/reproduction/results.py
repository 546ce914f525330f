"""Results of many runs: one tidy table, the hyperparameters that are reported, paired tests and calibration.

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

from lvmdc.reproduction.protocol import Protocol, Run, Settings

Paper = Mapping[str, Mapping[str, tuple[float, float]]]  # loss → method → mean and deviation, in percent


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
    return ", ".join(f"{name} = {short(value)}" for name, value in point)


def short(value: object) -> str:
    """A setting as one would write it.

    >>> short(100.0), short("central")
    ('100', 'central')
    """
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
