"""Where nothing is latent: one candidate a sample, beside scikit-learn's LinearSVC (crammer_singer, liblinear). One core.

The problem is the same, ½ Σ_k ‖w_k‖² + C/n Σ_i max_k [1 − [k = y_i] − (w_{y_i} − w_k)·x_i], and so is the objective that both are measured
by. liblinear runs at a row of tolerances; what counts is its time to an objective that is no worse than ours.

    python benchmarks/one_candidate.py [n, 10000] [d, 500] [K, 10] [C, 1000]
"""

import sys
import time
import warnings

import numpy as np
import torch
from record import record
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from lvmdc import LSVM, Candidates, LabelLoss


def objective(w: np.ndarray, x: np.ndarray, y: np.ndarray, C: float) -> float:
    """In float64, by code of its own."""
    scores = x.astype(np.float64) @ w.T.astype(np.float64)
    own = scores[np.arange(len(y)), y]
    margin = scores + 1.0 - own[:, None]
    margin[np.arange(len(y)), y] = 0.0
    return 0.5 * float((w.astype(np.float64) ** 2).sum()) + C * float(margin.max(axis=1).mean())


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    n, d, K = (int(a) for a in (*sys.argv[1:4], *(10_000, 500, 10)[len(sys.argv[1:4]) :]))
    C = float(sys.argv[4]) if len(sys.argv) > 4 else 1000.0
    x, y = make_classification(n, d, n_informative=d // 10, n_redundant=0, n_classes=K, class_sep=2.0, random_state=0)
    x = (x / np.linalg.norm(x, axis=1).mean()).astype(np.float32)
    candidates, labels = Candidates(x, np.ones(n, int)), torch.from_numpy(y)
    LSVM(LabelLoss()).fit(candidates.subset(list(range(100))), labels[:100])  # compiles and loads
    print(f"n = {n:,}, d = {d}, K = {K}, C = {C:g}\n{'':<26}{'CPU s':>8}{'objective':>12}{'training error %':>18}")
    ours, theirs = [], []
    for tol in (1e-2, 1e-3, 1e-4):
        began = time.process_time()
        model = LSVM(LabelLoss(), C=C, tol=tol).fit(candidates, labels)
        seconds = time.process_time() - began
        w = model.coef_.reshape(K, d).numpy()
        ours.append((tol, seconds, objective(w, x, y, C)))
        error = 100 * float(((x @ w.T).argmax(axis=1) != y).mean())
        print(f"{f'lvmdc.LSVM, tol {tol:g}':<26}{seconds:>8.2f}{ours[-1][2]:>12.3f}{error:>18.2f}")
    for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
        began = time.process_time()
        peer = LinearSVC(C=C / n, multi_class="crammer_singer", fit_intercept=False, tol=tol, max_iter=100_000, random_state=0).fit(x, y)
        seconds = time.process_time() - began
        theirs.append((seconds, objective(peer.coef_, x, y, C)))
        error = 100 * float((peer.predict(x) != y).mean())
        print(f"{f'LinearSVC, tol {tol:g}':<26}{seconds:>8.2f}{theirs[-1][1]:>12.3f}{error:>18.2f}")
    for tol, seconds, value in ours:
        enough = min((t for t, v in theirs if v <= value), default=None)
        record(n=n, d=d, K=K, C=C, tol=tol, seconds=seconds, objective=value, liblinear_seconds=enough)
        reached = "which liblinear reached at none of these tolerances"
        if enough is not None:
            reached = f"against liblinear's {enough:.2f} s, a ratio of {seconds / enough:.1f}"
        print(f"at {value:.3f} or below: {seconds:.2f} s, {reached}")


if __name__ == "__main__":
    main()
