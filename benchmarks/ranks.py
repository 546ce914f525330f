"""One rank against two: the same training, seconds, passes and how far apart the objectives are.

Candidates of 1,024 float16 numbers are written to a temporary folder and mapped, as in memory.py. LSVM and DISC learn by the one-slack
cutting plane for a few outer iterations, over one process and over two of torch.distributed (gloo), one thread each. Beside the
seconds of the first rank's processor for a pass stands what cost_model.py makes of the rates of this machine. What is not a pass, as
the θ block and the master problem, is among the seconds too.

    python benchmarks/ranks.py [samples, 1000] [outer iterations, 2]
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

from lvmdc import DISC, LSVM, Candidates, ConvergenceWarning
from lvmdc.distributed import shard

METHODS: dict[str, Any] = {"LSVM": (LSVM, {}), "DISC": (DISC, {"J": 0.001})}
WORLDS = (1, 2)


def learn(rank: int, world: int, folder: Path, method: str, iterations: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet_{method}_{world}", rank=rank, world_size=world)
    features = np.load(folder / "features.npy", mmap_mode="r")
    whole = Candidates(features, np.full(len(features) // CANDIDATES, CANDIDATES))
    candidates, y = shard(whole, torch.arange(len(whole)) % CLASSES)
    kind, settings = METHODS[method]
    model = kind(C=100.0, max_iter=iterations, solver="one_slack", n_classes=CLASSES, **settings)
    model.begin(candidates, y)
    dist.barrier()
    started, worked = time.perf_counter(), time.process_time()
    while not model.converged_ and model.n_iter_ < iterations:
        row = model.step()
    if rank == 0:
        seconds = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - worked}
        (folder / "result.json").write_text(json.dumps(row | seconds))
    dist.destroy_process_group()


def main() -> None:
    samples, iterations = (int(a) for a in (*sys.argv[1:3], *(1000, 2)[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "features.npy", samples)
        rates = cost_model.measure(folder / "features.npy", CLASSES)
        total = samples * CANDIDATES
        print(f"{total:,} candidates × {FEATURES} float16; one core: {rates}", flush=True)
        print(f"{'method':<8}{'ranks':>6}{'passes':>8}{'seconds':>9}{'CPU s':>8}{'s a pass':>10}{'model':>8}{'objective':>13}{'apart':>10}")
        for method in METHODS:
            alone = None
            for world in WORLDS:
                torch.multiprocessing.spawn(learn, (world, folder, method, iterations), nprocs=world)
                r = json.loads((folder / "result.json").read_text())
                alone = r["objective"] if alone is None else alone
                model = rates.seconds(total // world, FEATURES, CLASSES, 2)
                figures = f"{world:>6}{r['passes']:>8.0f}{r['seconds']:>9.1f}{r['cpu']:>8.1f}{r['cpu'] / r['passes']:>10.3f}{model:>8.3f}"
                print(f"{method:<8}{figures}{r['objective']:>13.6f}{abs(r['objective'] - alone):>10.1e}", flush=True)


if __name__ == "__main__":
    main()
