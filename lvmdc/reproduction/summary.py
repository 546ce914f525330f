"""Paired t-tests over folds.

Nadeau, Bengio: Inference for the generalization error. Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lvmdc.reproduction.protocol import Protocol
from lvmdc.reproduction.selection import Choice, Outcomes, best_on_test, chosen_by_validation


@dataclass(frozen=True)
class PairedTest:
    """The mean difference of two methods over the same folds, and how likely so large a one is by chance.

    `p` is that of the paired t-test, which the paper uses. It takes folds for independent, but their training parts share samples, so it is
    optimistic; `corrected` widens the variance by n_test/n_train, after Nadeau and Bengio. Both are None where nothing can be tested.

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
    n, gaps = len(a), a - b
    difference = float(gaps.mean())
    deviation = float(gaps.std(ddof=1)) if n > 1 else None
    if not deviation or deviation < 1e-12:  # a single fold, or the same gap in all: there is no scatter to compare with
        return PairedTest(difference, deviation, None, None, n)
    p = float(stats.ttest_rel(a, b).pvalue)
    error = deviation * math.sqrt(1 / n + test_share / (1 - test_share))
    return PairedTest(difference, deviation, p, float(2 * stats.t.sf(abs(difference) / error, n - 1)), n)


# What is reported of each method under each loss, and how the paper's method compares.

Paper = Mapping[str, Mapping[str, tuple[float, float]]]  # loss → method → mean and deviation, in percent


@dataclass(frozen=True)
class Summary:
    """What is reported of one method under one loss."""

    method: str
    loss: str
    best: Choice | None
    validated: Choice | None
    paper: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """The method that the paper proposes against another one, under one loss, by both ways to choose hyperparameters."""

    method: str
    other: str
    loss: str
    tests: Mapping[str, PairedTest | None] = field(default_factory=dict)


def summarise(protocol: Protocol, outcomes: Outcomes, paper: Paper) -> list[Summary]:
    """One summary for each loss and method.

    >>> summarise(Protocol([], {}), {}, {})
    []
    """
    return [
        Summary(
            method.name,
            loss,
            best_on_test(outcomes, method.name, loss, protocol.folds),
            chosen_by_validation(outcomes, method.name, loss, protocol.folds, protocol.inner_folds) if protocol.inner_folds else None,
            paper.get(loss, {}).get(method.name),
        )
        for loss in protocol.losses
        for method in protocol.methods
    ]


def compare(summaries: Sequence[Summary], method: str, others: Sequence[str], fraction: float) -> list[Comparison]:
    """Paired tests of a method against others over the folds, of which `fraction` of the samples trained."""
    by_name = {(s.loss, s.method): s for s in summaries}
    found = []
    for loss in dict.fromkeys(s.loss for s in summaries):
        for other in others:
            one, two = by_name.get((loss, method)), by_name.get((loss, other))
            if one is not None and two is not None:
                pairs = {"best": (one.best, two.best), "validated": (one.validated, two.validated)}
                tests = {kind: _tested(a, b, 1 - fraction) for kind, (a, b) in pairs.items()}
                found.append(Comparison(method, other, loss, tests))
    return found


def _tested(one: Choice | None, two: Choice | None, test_share: float) -> PairedTest | None:
    return None if one is None or two is None else paired_test(one.values("loss"), two.values("loss"), test_share)
