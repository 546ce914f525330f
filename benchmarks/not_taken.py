"""Ways to a cheaper pass that were measured and not taken: mammals, a latent SVM with the loss [y≠ŷ], C = 10, one core.

- Samples skipped by a bound: |(w − w')·Ψ| ≤ ‖w − w'‖ ‖Ψ‖ proves of a sample that no candidate but those of its known planes can have its
  maximum, so that it need not be scored. Printed is the share of all candidates, over the passes of a training, that the bound
  lets skip: plain, and with Ψ less the mean of its sample, whose product with w − w' is cheap and exact.
- Classes of a sample skipped by the same bound (centred), since they were last scored: those whose maximum provably lies below the level
  at which planes are added, so that the training stays the same; the own class is always scored, as h* needs it. Printed is the share of
  the products of candidates and classes that need not be made, for all candidates of a sample at once and for each by its own bound,
  beside the share of a training that products take, on the mammals and for 100 classes. What saves a seventh of a third is not worth its
  code; with many classes the last passes could skip most, but a loop over what is left runs at two thirds of the speed of a whole
  product, and where scores are wanted afterwards, one whole pass more is due.
- bfloat16 scoring with exact scoring of the winners: printed is how long a product takes beside ours, how often it finds the winner, and
  how much higher the true maximum can be than what it finds by the same inequality, beside the gap that is asked for.

    python benchmarks/not_taken.py [tol …]
"""

import itertools
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from growth import samples
from mammals import Mammals
from record import record
from tqdm import tqdm

from lvmdc import LSVM, Candidates, LabelLoss
from lvmdc.feature_maps import product
from lvmdc.inference import best
from lvmdc.segments import segment_max
from lvmdc.solvers import choice
from lvmdc.solvers.n_slack.dual import NSlack, Pass

C, FOLDS = 10.0, 5
TOLERANCES = [1e-3, 1e-4, 1e-5]


class Watched(NSlack):
    """Keeps of every pass w, the scores, which planes were known before it, and how far each sample's mixture is below its maximum."""

    passes: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]

    def examine(self) -> Pass:
        p = self.planes
        known = torch.zeros(self.losses.shape, dtype=torch.bool)
        known[p.row[p.used], p.cls[p.used]] = True
        found = super().examine()
        below = torch.from_numpy(self.gaps / self.total)
        Watched.passes.append((found.point.w.reshape(self.hinge.n_classes, -1), found.point.scores, known, below))
        return found


def skipped(candidates: Candidates, losses: torch.Tensor, centred: bool) -> list[float]:
    """The share of the candidates that each pass but the first could have skipped, by the scores of the one before."""
    mean, length = lengths(candidates, centred)
    sample, shares = candidates.sample, []
    for (w, scores, _, _), (after, exact, known, _) in zip(Watched.passes, Watched.passes[1:], strict=False):
        moved = after - w
        above = scores.double() + losses + length[:, None] * moved.norm(dim=1)
        if centred:
            above += (mean @ moved.T)[sample]
        others = segment_max(above.masked_fill(known, -torch.inf).amax(1), candidates.counts)
        mine = segment_max((exact.double() + losses).masked_fill(~known, -torch.inf).amax(1), candidates.counts)
        shares.append(float(candidates.counts[others <= mine].sum() / candidates.n_candidates))
    return shares


def lengths(candidates: Candidates, centred: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of each sample's features (n, d), and ‖Ψ‖ of each candidate (T,), less that mean if `centred`."""
    features, sample = candidates.features.double(), candidates.sample
    mean = torch.zeros(len(candidates), features.shape[1], dtype=torch.float64).index_add(0, sample, features) / candidates.counts[:, None]
    return mean, (features - mean[sample] if centred else features).norm(dim=1)


def skipped_products(candidates: Candidates, losses: torch.Tensor, own: torch.Tensor, each: bool) -> float:
    """The share of all products of candidates (T,) and classes that passes could have skipped; `own` (T, K): those that are always made.

    Args:
        each: by a bound for each candidate, not for the candidates of a sample together.
    """
    mean, length = lengths(candidates, centred=True)
    sample, counts = candidates.sample, candidates.counts
    radius = length if each else segment_max(length, counts)[sample]
    above, before = losses.clone(), torch.zeros_like(Watched.passes[0][0])  # of w = 0, where all scores are known
    shares = []
    for w, scores, _, below in Watched.passes:
        moved, exact = w - before, scores.double() + losses
        above += (mean @ moved.T)[sample] + radius[:, None] * moved.norm(dim=1)
        level = segment_max(exact.amax(1), counts) - below
        made = (above >= level[sample, None]) | own
        above = torch.where(made, exact if each else segment_max(exact, counts)[sample], above)
        shares.append(1 - float(made.double().mean()))
        before = w
    return float(np.mean(shares))


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
        LSVM(loss=LabelLoss(), C=C, tol=tol, init="random", cccp="inexact").fit(candidates, y)
        losses = (torch.arange(6) != y[candidates.sample, None]).double()
        shares = [skipped(candidates, losses, centred) for centred in (False, True)]
        rows.setdefault(tol, []).append([len(Watched.passes), *(100 * sum(s) / len(Watched.passes) for s in shares)])
    for tol, found in rows.items():
        passes, plain, centred = np.mean(found, axis=0)
        print(f"{tol:>8}{passes:>8.0f}{plain:>11.1f}{centred:>11.1f}")
        record(tol=tol, passes=passes, skipped=plain, skipped_centred=centred)


def classes(mammals: Mammals, tolerances: list[float]) -> None:
    train, _ = mammals.published_fold(1)
    sets = {"mammals": (mammals.candidates.subset(train), mammals.y[train]), "100 classes": samples(n=1000, H=30, d=500, K=100)}
    print(f"\n{'':<13}{'tol':>8}{'cccp':>8}{'passes':>8}{'products %':>12}{'skipped %':>11}{'by each %':>11}")
    for (name, (candidates, y)), tol, cccp in itertools.product(sets.items(), tolerances, ("inexact", "eager")):
        Watched.passes = []
        started = time.process_time()
        w = LSVM(loss=LabelLoss(), C=C, tol=tol, init="random", cccp=cccp).fit(candidates, y).coef_
        spent, passes = 1e3 * (time.process_time() - started), len(Watched.passes)
        own = torch.arange(len(w)) == y[candidates.sample, None]
        share = 100 * passes * fastest(lambda: product(candidates.features, w)) / spent  # noqa: B023
        plain, each = (100 * skipped_products(candidates, (~own).double(), own, each) for each in (False, True))
        print(f"{name:<13}{tol:>8}{cccp:>8}{passes:>8}{share:>12.0f}{plain:>11.1f}{each:>11.1f}")
        record(set=name, tol=tol, cccp=cccp, passes=passes, products=share, skipped_products=plain, skipped_by_each=each)


def half(mammals: Mammals) -> None:
    train, _ = mammals.published_fold(1)
    candidates, y = mammals.candidates.subset(train), mammals.y[train]
    w = LSVM(loss=LabelLoss(), C=C, init="random", cccp="inexact").fit(candidates, y).coef_.float()
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
    tolerances = [float(word) for word in sys.argv[1:]] or TOLERANCES
    skipping(mammals, tolerances)
    classes(mammals, tolerances)
    half(mammals)


if __name__ == "__main__":
    main()
