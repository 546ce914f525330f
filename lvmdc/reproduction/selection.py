"""Which hyperparameters are reported: the best on the test parts, as in the paper, or those chosen on validation folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lvmdc.reproduction.protocol import Run, Settings

Measures = Mapping[str, float]
Outcomes = Mapping[Run, Measures]  # of the runs that are done, in the order of the plan


@dataclass(frozen=True)
class Choice:
    """The runs that are reported of a method under a loss, one a fold, with their measures.

    >>> from lvmdc.reproduction import Division
    >>> runs = [Run("LSVM", "lvmdc.LSVM", "zero_one", "{}", (("C", 1.0),), (("C", 1.0),), Division(fold=k), "data") for k in range(2)]
    >>> choice = Choice(runs, [{"loss": 0.25}, {"loss": 0.75}])
    >>> choice.values("loss"), choice.mean("loss"), choice.points
    (array([0.25, 0.75]), 0.5, [(('C', 1.0),), (('C', 1.0),)])
    """

    runs: list[Run]
    measures: list[Measures]

    def values(self, name: str) -> np.ndarray:
        """(folds,) a measure in each fold."""
        return np.array([found[name] for found in self.measures], dtype=float)

    def mean(self, name: str) -> float:
        """Its mean over the folds."""
        return float(self.values(name).mean())

    def deviation(self, name: str) -> float | None:
        """Its standard deviation over the folds (n − 1); None of a single one."""
        return float(self.values(name).std(ddof=1)) if len(self.runs) > 1 else None

    @property
    def points(self) -> list[Settings]:
        """The hyperparameters in each fold."""
        return [run.point for run in self.runs]


def complete_choices(outcomes: Outcomes, method: str, loss: str, folds: int) -> dict[Settings, Choice]:
    """Each point of the grid with its runs on the folds, where all of them are done.

    >>> complete_choices({}, "LSVM", "zero_one", 5)
    {}
    """
    found: dict[Settings, dict[int, Run]] = {}
    for run in outcomes:
        if run.method == method and run.loss == loss and not run.inner:
            found.setdefault(run.point, {})[run.division.fold] = run
    whole = {point: [by_fold[k] for k in range(folds)] for point, by_fold in found.items() if len(by_fold) == folds}
    return {point: Choice(runs, [outcomes[run] for run in runs]) for point, runs in whole.items()}


def best_on_test(outcomes: Outcomes, method: str, loss: str, folds: int) -> Choice | None:
    """The point of lowest mean test loss, the first of several: how the paper picks C, and therefore optimistic.

    >>> best_on_test({}, "LSVM", "zero_one", 5) is None
    True
    """
    choices = complete_choices(outcomes, method, loss, folds).values()
    return min(choices, key=lambda choice: choice.mean("loss"), default=None)


def chosen_by_validation(outcomes: Outcomes, method: str, loss: str, folds: int, inner_folds: int) -> Choice | None:
    """For each fold, the point of lowest mean loss over divisions of its training part alone, the first of several; None if runs lack.

    What is reported is the run at that point that learned from the whole training part.

    >>> chosen_by_validation({}, "LSVM", "zero_one", folds=5, inner_folds=3) is None
    True
    """
    validation: dict[int, dict[Settings, list[float]]] = {}
    whole: dict[tuple[int, Settings], Run] = {}
    for run, measures in outcomes.items():
        if run.method == method and run.loss == loss:
            if run.inner:
                validation.setdefault(run.division.fold, {}).setdefault(run.point, []).append(measures["loss"])
            else:
                whole[run.division.fold, run.point] = run
    chosen: list[Run] = []
    for fold in range(folds):
        means = {point: np.mean(v) for point, v in validation.get(fold, {}).items() if len(v) == inner_folds and (fold, point) in whole}
        if not means:
            return None
        chosen.append(whole[fold, min(means, key=lambda point: means[point])])
    return Choice(chosen, [outcomes[run] for run in chosen])


def curve(outcomes: Outcomes, method: str, loss: str, folds: int) -> list[tuple[float, Choice]]:
    """A point of the figure for each C, by increasing C; where the grid has other arguments too, the best of them on the test parts.

    >>> curve({}, "LSVM", "zero_one", 5)
    []
    """
    best: dict[float, Choice] = {}
    for choice in complete_choices(outcomes, method, loss, folds).values():
        C = choice.runs[0].setting("C", 1.0)
        assert isinstance(C, int | float)
        if float(C) not in best or choice.mean("loss") < best[float(C)].mean("loss"):
            best[float(C)] = choice
    return sorted(best.items())
