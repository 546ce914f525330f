"""What a latent SVM costs by the book: a plain one-slack cutting plane, on packed candidates and on padded ones. Mammals, one core.

Both are written here for comparison, without anything that lvmdc does to save passes: every convex problem of the concave–convex
procedure starts with no cuts, each cut is taken at the master's own w, no line search, every problem solved to C·ε. The padded one holds
every image's candidates as (n, max |H|, d) with a mask, as implementations without ragged arrays do; it makes as many passes as the
packed one, of which the first fifty are run and the time of all is taken from them: what is not measured but reckoned so has ≈ before it.
Arrays are made before the clock starts. The unit of cost is a bare `features @ W.T` on the packed features; the ratio is that of CPU
seconds to those of lvmdc's quickest in the same run.

    python benchmarks/plain.py [folds, 1]
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from mammals import Mammals
from record import record

from lvmdc import LSVM, Candidates, LabelLoss
from lvmdc.solvers.cutting_planes import solve_master

C, EPSILON, MOST, SOME = 10.0, 1e-3, 2000, 50
INF = float("inf")


class Packed:
    """Scores (T, K) of packed candidates, and what a cutting plane asks of them."""

    def __init__(self, candidates, y):
        self.x, self.counts, self.y, self.n = candidates.features, candidates.counts, y, len(y)
        self.sample, self.first = candidates.sample, candidates.offsets
        self.start = self.first + (torch.rand(self.n, generator=torch.Generator().manual_seed(0)) * self.counts).long()

    def passed(self, w):
        return self.x @ w.T

    def best(self, scores):
        """(n, K): the candidate of highest score of each class."""
        top = torch.segment_reduce(scores, "max", lengths=self.counts)
        at = torch.where(scores == top[self.sample], torch.arange(len(scores))[:, None], len(scores))
        return top, torch.segment_reduce(at.double(), "min", lengths=self.counts).long()

    def features(self, rows):
        return self.x[rows]


class Padded(Packed):
    """The same with every sample's candidates filled up to the largest number."""

    def __init__(self, candidates, y):
        super().__init__(candidates, y)
        most = int(self.counts.max())
        self.table = torch.zeros(self.n, most, self.x.shape[1])
        self.mask = torch.arange(most) < self.counts[:, None]
        self.table[self.mask] = self.x

    def passed(self, w):
        return torch.einsum("nhd,kd->nhk", self.table, w).masked_fill(~self.mask[:, :, None], -INF)

    def best(self, scores):
        top, at = scores.max(dim=1)
        return top, at + self.first[:, None]


def train(data: Packed, K: int, most: float = INF) -> tuple[float, int]:
    """The objective (13) that was reached, and passes, `most` of them at most."""
    n, d = data.n, data.x.shape[1]
    y, everyone = data.y, torch.arange(data.n)
    loss = 1.0 - torch.nn.functional.one_hot(y, K).float()
    w, rows, before, passes = torch.zeros(K, d), data.start, INF, 0
    while True:
        truth = torch.zeros(K, d).index_add_(0, y, data.features(rows)) / n
        directions, losses = [], []
        for _ in range(MOST):
            top, at = data.best(data.passed(w))
            passes += 1
            if passes >= most:
                return INF, passes
            chosen = (top + loss).argmax(dim=1)
            cut = truth - torch.zeros(K, d).index_add_(0, chosen, data.features(at[everyone, chosen])) / n
            cost = float(loss[everyone, chosen].mean())
            known = max((c - float((w * g).sum()) for g, c in zip(directions, losses, strict=True)), default=0.0)
            if cost - float((w * cut).sum()) <= max(known, 0.0) + EPSILON:
                break
            directions.append(cut)
            losses.append(cost)
            stack = torch.stack(directions).flatten(1).double()
            alpha = solve_master((stack @ stack.T).numpy(), np.array(losses), C)
            w = (C * torch.from_numpy(alpha) @ stack).reshape(K, d).float()
        top, at = data.best(data.passed(w))
        passes += 1
        value = 0.5 * float((w.double() ** 2).sum()) + C * float(((top + loss).amax(dim=1) - top[everyone, y]).double().mean())
        if before - value <= C * EPSILON:
            return value, passes
        before, rows = value, at[everyone, y]


def ours(candidates: Candidates, y: torch.Tensor, cccp: str) -> tuple[float, int]:
    """The same by lvmdc."""
    model = LSVM(LabelLoss(), C=C, tol=EPSILON, init="random", cccp=cccp).fit(candidates, y)
    return model.objective_, round(model.history_[-1]["passes"])


# Each makes its arrays, and returns what is to be timed.
KINDS: dict[str, Callable[[Candidates, torch.Tensor], Callable[[], tuple[float, int]]]] = {
    "plain, packed": lambda c, y: partial(train, Packed(c, y), 6),
    "plain, padded": lambda c, y: partial(train, Padded(c, y), 6, SOME),
    "lvmdc, n_slack, inexact": lambda c, y: partial(ours, c, y, "inexact"),
    "lvmdc, n_slack, eager": lambda c, y: partial(ours, c, y, "eager"),
}


def main() -> None:
    torch.set_num_threads(1)
    mammals = Mammals()
    folds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"{'fold':<6}{'':<26}{'objective':>11}{'passes':>8}{'CPU s':>9}{'cost':>9}{'ratio':>8}")
    LSVM(LabelLoss(), cccp="eager").fit(mammals.candidates.subset([0, 50, 100, 150]), mammals.y[[0, 50, 100, 150]])
    for fold in range(1, folds + 1):
        train_part, _ = mammals.published_fold(fold)
        candidates, y = mammals.candidates.subset(train_part), mammals.y[train_part]
        w = torch.randn(6, candidates.n_features)
        units = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(20):
                candidates.features @ w.T
            units.append((time.process_time() - began) / 20)
        unit = min(units)
        rows: dict[str, tuple[float, int, float, bool]] = {}
        for name, make in KINDS.items():
            run = make(candidates, y)
            began = time.process_time()
            value, passes = run()
            seconds, reckoned = time.process_time() - began, value == INF
            if reckoned:  # the same passes as the last one, each as dear as these were
                value, through, *_ = rows["plain, packed"]
                seconds, passes = seconds * through / passes, through
            rows[name] = value, passes, seconds, reckoned
        least = min(seconds for name, (_, _, seconds, _) in rows.items() if name.startswith("lvmdc"))
        for name, (value, passes, seconds, reckoned) in rows.items():
            sign, figures = "≈" if reckoned else "", (seconds, seconds / unit, seconds / least)
            cells = [f"{sign}{figure:{form}}" for figure, form in zip(figures, (".2f", ".0f", ".1f"), strict=True)]
            print(f"{fold:<6}{name:<26}{value:>11.3f}{passes:>8}{cells[0]:>9}{cells[1]:>9}{cells[2]:>8}", flush=True)
            found = {"objective": value, "passes": passes, "seconds": seconds, "cost": seconds / unit, "ratio": seconds / least}
            record(fold=fold, kind=name, reckoned=reckoned, **found)


if __name__ == "__main__":
    main()
