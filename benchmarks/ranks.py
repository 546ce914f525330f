"""One rank against two: the same training, seconds, passes and how far apart the objectives are.

Candidates of 1,024 float16 numbers are written to a temporary folder and mapped, as in memory.py. LSVM and DISC learn by the one-slack
cutting plane for one outer iteration, in which a convex problem may take a few passes only, over one process and over two of
torch.distributed (gloo), one thread each: two ranks need two free cores. `seconds` are on the clock, CPU seconds those
of the first rank; `reduce s` is the number of its all-reduces, of which most are of one number and one a pass is of K·d, times what one
takes among ranks that do nothing else. `model` is what cost_model.py makes of the rates of this machine for a pass, those waits included.
What is not a pass, as maxima, the line search, the θ block and the master problem, is among the seconds too.

    python benchmarks/ranks.py [samples, 10000] [passes of a convex problem, 8]
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import cost_model
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from memory import CANDIDATES, CLASSES, FEATURES, write
from record import record

from lvmdc import DISC, LSVM, Candidates, ConvergenceWarning
from lvmdc.distributed import shard

METHODS: dict[str, Any] = {"LSVM": (LSVM, {}), "DISC": (DISC, {"J": 0.001})}
WORLDS = (1, 2)


class Counted:
    """`all_reduce`, which counts how often it was called for one number, and for more."""

    def __init__(self) -> None:
        self.one = self.many = 0
        self.reduce, dist.all_reduce = dist.all_reduce, self

    def __call__(self, values: torch.Tensor, *args: Any, **settings: Any) -> Any:
        self.one, self.many = self.one + (values.numel() == 1), self.many + (values.numel() > 1)
        return self.reduce(values, *args, **settings)


def learn(rank: int, world: int, folder: Path, method: str, passes: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet_{method}_{world}", rank=rank, world_size=world)
    features = np.load(folder / "features.npy", mmap_mode="r")
    whole = Candidates(features, np.full(len(features) // CANDIDATES, CANDIDATES))
    candidates, y = shard(whole, torch.arange(len(whole)) % CLASSES)
    kind, settings = METHODS[method]
    few = Candidates(features[: 2 * CLASSES * CANDIDATES].astype(np.float32), np.full(2 * CLASSES, CANDIDATES))
    kind(solver="one_slack", **settings).fit(few, torch.arange(len(few)) % CLASSES)  # what loads or compiles once, does so here
    waits = cost_model.all_reduce_seconds(1), cost_model.all_reduce_seconds(CLASSES * FEATURES + 1)
    model = kind(C=100.0, solver="one_slack", n_classes=CLASSES, **settings)
    model.begin(candidates, y)
    model._training.cccp.solver.max_iter = passes
    dist.barrier()
    counted, started, worked = Counted(), time.perf_counter(), time.process_time()
    row = model.step()
    if rank == 0:
        seconds = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - worked}
        reduced = {"reduces": counted.one + counted.many, "reduce_seconds": counted.one * waits[0] + counted.many * waits[1]}
        (folder / "result.json").write_text(json.dumps(row | seconds | reduced))
    dist.destroy_process_group()


def main() -> None:
    samples, passes = (int(a) for a in (*sys.argv[1:3], *(10_000, 8)[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "features.npy", samples)
        rates = cost_model.measure(folder / "features.npy", CLASSES)
        total = samples * CANDIDATES
        print(f"{total:,} candidates × {FEATURES} float16; one core: {rates}", flush=True)
        head = f"{'passes':>8}{'seconds':>9}{'CPU s':>8}{'reduces':>9}{'reduce s':>10}{'s a pass':>10}{'model':>8}{'speed-up':>10}"
        print(f"{'method':<8}{'ranks':>6}{head}{'objective':>13}{'apart':>10}")
        for method in METHODS:
            alone: dict[str, float] = {}
            for world in WORLDS:
                torch.multiprocessing.spawn(learn, (world, folder, method, passes), nprocs=world)
                r = json.loads((folder / "result.json").read_text())
                alone = alone or r
                r["model"] = rates.seconds(total // world, FEATURES, CLASSES, 2, r["reduce_seconds"] / r["passes"])
                r["apart"], r["speed_up"] = abs(r["objective"] - alone["objective"]), alone["seconds"] / r["seconds"]
                record(method=method, ranks=world, candidates=total, features=FEATURES, **r)
                figures = f"{r['passes']:>8.0f}{r['seconds']:>9.1f}{r['cpu']:>8.1f}{r['reduces']:>9}{r['reduce_seconds']:>10.2f}"
                pace = f"{r['seconds'] / r['passes']:>10.3f}{r['model']:>8.3f}{r['speed_up']:>10.2f}"
                print(f"{method:<8}{world:>6}{figures}{pace}{r['objective']:>13.6f}{r['apart']:>10.1e}", flush=True)


if __name__ == "__main__":
    main()
