"""Paired t-tests over folds.

Nadeau, Bengio: Inference for the generalization error. Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


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
