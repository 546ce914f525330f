"""Two ways to a cheaper pass that were measured and not taken: mammals, a latent SVM with the loss [y≠ŷ], C = 10, one core.

- Samples skipped by a bound: |(w − w')·Ψ| ≤ ‖w − w'‖ ‖Ψ‖ proves of a sample that no candidate but those of its known planes can have its
  maximum, so that it need not be scored. Printed is the share of all candidates, over the passes of a training, that the bound
  lets skip: plain, and with Ψ less the mean of its sample, whose product with w − w' is cheap and exact.
- bfloat16 scoring with exact scoring of the winners: printed is how long a product takes beside ours, how often it finds the winner, and
  how much higher the true maximum can be than what it finds by the same inequality, beside the gap that is asked for.

    python benchmarks/not_taken.py [tol …]
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from mammals import Mammals
from record import record
from tqdm import tqdm

from lvmdc import LSVM, Candidates, LabelLoss
from lvmdc.inference import best
from lvmdc.joint import product
from lvmdc.segments import segment_max
from lvmdc.solvers import choice
from lvmdc.solvers.n_slack import NSlack, Pass

C, FOLDS = 10.0, 5
TOLERANCES = [1e-3, 1e-4, 1e-5]


class Watched(NSlack):
    """Keeps of every pass w, the scores, and which planes were known before it."""

    passes: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

    def examine(self) -> Pass:
        p = self.planes
        assert p is not None
        known = torch.zeros(self.losses.shape, dtype=torch.bool)
        known[p.row[p.used], p.cls[p.used]] = True
        found = super().examine()
        Watched.passes.append((found.point.w.reshape(self.hinge.n_classes, -1), found.point.scores, known))
        return found


def skipped(candidates: Candidates, losses: torch.Tensor, centred: bool) -> list[float]:
    """The share of the candidates that each pass but the first could have skipped, by the scores of the one before."""
    features, sample = candidates.features.double(), candidates.sample
    mean = torch.zeros(len(candidates), features.shape[1], dtype=torch.float64).index_add(0, sample, features) / candidates.counts[:, None]
    length = (features - mean[sample] if centred else features).norm(dim=1)
    shares = []
    for (w, scores, _), (after, exact, known) in zip(Watched.passes, Watched.passes[1:], strict=False):
        moved = after - w
        above = scores.double() + losses + length[:, None] * moved.norm(dim=1)
        if centred:
            above += (mean @ moved.T)[sample]
        others = segment_max(above.masked_fill(known, -torch.inf).amax(1), candidates.counts)
        mine = segment_max((exact.double() + losses).masked_fill(~known, -torch.inf).amax(1), candidates.counts)
        shares.append(float(candidates.counts[others <= mine].sum() / candidates.n_candidates))
    return shares


def fastest(function: Callable[[], object]) -> float:
    """CPU milliseconds of one call, the least of several."""
    times = []
    for _ in range(20):
        started = time.process_time()
        function()
        times.append(1e3 * (time.process_time() - started))
    return min(times)


def skipping(mammals: Mammals, tolerances: list[float]) -> None:
    print(f"{'tol':>8}{'passes':>8}{'skipped %':>11}{'centred %':>11}")
    jobs = [(tol, fold) for tol in tolerances for fold in range(1, FOLDS + 1)]
    rows: dict[float, list[list[float]]] = {}
    for tol, fold in tqdm(jobs, unit="training"):
        train, _ = mammals.published_fold(fold)
        candidates, y = mammals.candidates.subset(train), mammals.y[train]
        Watched.passes = []
        LSVM(loss=LabelLoss(), C=C, tol=tol).fit(candidates, y)
        losses = (torch.arange(6) != y[candidates.sample, None]).double()
        shares = [skipped(candidates, losses, centred) for centred in (False, True)]
        rows.setdefault(tol, []).append([len(Watched.passes), *(100 * sum(s) / len(Watched.passes) for s in shares)])
    for tol, found in rows.items():
        passes, plain, centred = np.mean(found, axis=0)
        print(f"{tol:>8}{passes:>8.0f}{plain:>11.1f}{centred:>11.1f}")
        record(tol=tol, passes=passes, skipped=plain, skipped_centred=centred)


def half(mammals: Mammals) -> None:
    train, _ = mammals.published_fold(1)
    candidates, y = mammals.candidates.subset(train), mammals.y[train]
    w = LSVM(loss=LabelLoss(), C=C).fit(candidates, y).coef_.float()
    features, rounded, table = candidates.features, candidates.features.bfloat16(), w.bfloat16()
    losses = (torch.arange(6) != y[candidates.sample, None]).float()
    exact, rough = product(features, w) + losses, (rounded @ table.T).float() + losses
    (y1, rows1), (y2, rows2) = best(candidates, exact), best(candidates, rough)
    missed = segment_max(exact.amax(1), candidates.counts) - exact[rows2, y2]
    # What rounding of either factor, 2⁻⁹ of each number, can do to a product, by Cauchy and Schwarz.
    doubt = 2**-8 * float(features.norm(dim=1).mean() * w.norm(dim=1).mean())
    torch_ms, ours_ms, half_ms = (fastest(f) for f in (lambda: features @ w.T, lambda: product(features, w), lambda: rounded @ table.T))
    same, lost = 100 * float(((y1 == y2) & (rows1 == rows2)).double().mean()), C * float(missed.mean())
    print(f"\nmilliseconds: torch float32 {torch_ms:.1f}, ours {ours_ms:.1f}, torch bfloat16 {half_ms:.1f}")
    print(f"winners that bfloat16 finds: {same:.1f} %, C · mean of what it misses: {lost:.4f}, ", end="")
    print(f"C · what it may miss: {C * doubt:.4f}, asked for: {C * 1e-3 / 2:.4f}")
    record(torch_ms=torch_ms, ours_ms=ours_ms, bfloat16_ms=half_ms, same=same, missed=lost, may_miss=C * doubt)


def main() -> None:
    torch.set_num_threads(1)
    choice.NSlack = Watched  # type: ignore[misc]
    mammals = Mammals()
    skipping(mammals, [float(word) for word in sys.argv[1:]] or TOLERANCES)
    half(mammals)


if __name__ == "__main__":
    main()
