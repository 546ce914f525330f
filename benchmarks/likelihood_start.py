"""What the likelihood start costs, in units of one bare `features @ W.T` of torch on the same candidates, and how well it finds the object.

Digits and mammals (LVMDC_DATA), three divisions 60/40 by class, one core. CorLoc: the share of training images whose most probable
candidate overlaps the ground-truth one by at least half. Beside it, the most central candidate.

    python benchmarks/likelihood_start.py
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from digits import Digits
from mammals import Mammals
from record import record

from lvmdc import Candidates, OverlapLoss
from lvmdc.feature_maps import ClassBlocks
from lvmdc.samples import split_by_class
from lvmdc.segments import segment_argmax
from lvmdc.solvers.initial import likelihood_posterior, starting_weights

DIVISIONS, REPEATS = 3, 5


def cpu_seconds(function: Callable[[], object], repeat: int) -> float:
    """The least CPU time of a call."""
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return min(seconds)


def corloc(weights: torch.Tensor, candidates: Candidates, y: torch.Tensor, h: torch.Tensor) -> float:
    rows = segment_argmax(weights, candidates.counts)
    return 100 * float((OverlapLoss().between(candidates, y, h, y, rows - candidates.offsets) <= 0.5).double().mean())


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':>8}{'unit, ms':>10}{'start, ms':>11}{'cost':>7}{'CorLoc %':>10}{'central %':>11}")
    for name, data in (("digits", Digits(per_class=60)), ("mammals", Mammals())):
        found = []
        for fold in range(DIVISIONS):
            train, _ = split_by_class(data.y, fold=fold)
            candidates, y, h = data.candidates.subset(train), data.y[train], data.h[train]
            w, unknown = torch.randn(6, candidates.n_features), torch.full_like(y, -1)
            unit = cpu_seconds(lambda: candidates.features @ w.T, 20)  # noqa: B023
            seconds = cpu_seconds(lambda: likelihood_posterior(candidates, y, ClassBlocks(6), unknown), REPEATS)  # noqa: B023
            p = likelihood_posterior(candidates, y, ClassBlocks(6), unknown)
            central = starting_weights("central", candidates, torch.ones_like(p, dtype=torch.bool))
            places = [corloc(weights, candidates, y, h) for weights in (p, central)]
            found.append([1e3 * unit, 1e3 * seconds, seconds / unit, *places])
        unit, start, cost, corloc_start, corloc_central = np.mean(found, axis=0)
        record(data=name, cost=cost, corloc=corloc_start, corloc_central=corloc_central)
        print(f"{name:>8}{unit:>10.2f}{start:>11.0f}{cost:>7.0f}{corloc_start:>10.1f}{corloc_central:>11.1f}")


if __name__ == "__main__":
    main()
