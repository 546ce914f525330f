"""What learning asks of a device, and how long it takes on those there are.

First, on the mammals and on the simulated accelerator of the tests: operations, launched kernels, waits of the host, copies and copied
megabytes per pass of each learner. Then a scoring pass, the expected loss, a latent SVM and DISC on every device there is: seconds on the
clock, the least of three.

Candidates as in growth.py: 2,000 samples of 50 boxes with 512 features, six classes; float32, torch's own number of threads. The expected
loss is the overlap loss's, which is computed as it is summed on a CPU and from blocks of Δ on other devices.

    python benchmarks/devices.py [samples, 2000]
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from growth import samples
from mammals import Mammals
from record import record

from lvmdc import DISC, EM, ILSVM, LSVM, M3E, ConvergenceWarning, LabelLoss, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss

CLASSES = 6
LEARNERS: dict[str, Callable[[], Any]] = {
    "LSVM": lambda: LSVM(LabelLoss(), C=10.0),
    "LSVM, overlap": lambda: LSVM(OverlapLoss(), C=10.0),
    "ILSVM, overlap": lambda: ILSVM(OverlapLoss()),
    "Supervised, overlap": lambda: Supervised(OverlapLoss()),
    "DISC, 0/1": lambda: DISC(ZeroOneLoss(), J=0.1),
    "DISC, overlap": lambda: DISC(OverlapLoss(), J=0.1),
    "EM, overlap": lambda: EM(OverlapLoss()),
    "M3E": lambda: M3E(LabelLoss()),
}


def asked() -> None:
    """What each learner asks of a device per pass, on one published fold of the mammals, after the start."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import standin

    mammals = Mammals()
    train = mammals.published_fold(1)[0]
    candidates, y, h = (part.to(standin.NAME) for part in (mammals.candidates.subset(train), mammals.y[train], mammals.h[train]))
    heads = "passes", "operations", "launches", "syncs", "copies", "megabytes"
    print(f"{'a pass of':<20}" + "".join(f"{head:>12}" for head in heads))
    for name, make in LEARNERS.items():
        model = make().set_params(init="central", max_iter=5)
        model.begin(candidates, y, h if model.uses_known_h else None)
        with standin.count() as seen:
            while not model.converged_ and model.n_iter_ < model.max_iter:
                model.step()
        passes = model.history_[-1]["passes"]
        each = (seen.operations, seen.launches, seen.syncs, seen.copies, seen.copied_bytes / 1e6)
        values = dict(zip(heads, (passes, *(one / passes for one in each)), strict=True))
        record(learner=name, **values)
        print(f"{name:<20}" + "".join(f"{value:>12.1f}" for value in values.values()), flush=True)


def quickest(function: Callable[[], object], device: str, repeat: int = 3) -> float:
    """Seconds on the clock of one call, after one that loads and compiles."""
    times = []
    for _ in range(1 + repeat):
        began = time.perf_counter()
        function()
        if device != "cpu":
            torch.cuda.synchronize()  # work that was only queued has not been done yet
        times.append(time.perf_counter() - began)
    return min(times[1:])


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    asked()
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    devices, found = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])], {}
    for device in devices:
        candidates, y = (part.to(device) for part in samples(n, 50, 512, CLASSES))
        w, p = torch.randn(CLASSES * 512, device=device), torch.full((50 * n,), 1 / 50, device=device)
        bound, settings = ExpectedLoss(OverlapLoss(), candidates, y, CLASSES), {"C": 10.0, "tol": 0.01, "cccp": "eager", "max_iter": 3}
        work: dict[str, Callable[[], object]] = {
            "scoring pass": lambda c=candidates, w=w: ClassBlocks(CLASSES).scores(c, w),
            "expected loss (7)": lambda b=bound, p=p: b.expected_loss(p),
            "LSVM": lambda c=candidates, y=y, s=settings: LSVM(LabelLoss(), **s).fit(c, y),
            "DISC, overlap": lambda c=candidates, y=y, s=settings: DISC(OverlapLoss(), J=0.001, **s).fit(c, y),
        }
        found[device] = {name: quickest(function, device) for name, function in work.items()}
        record(device=device, threads=torch.get_num_threads(), samples=n, **found[device])
    print(f"{n:,} samples of 50 candidates × 512, {torch.get_num_threads()} threads; seconds")
    print(f"{'':<20}" + "".join(f"{device:>10}" for device in devices) + (f"{'cpu / cuda':>12}" if len(devices) > 1 else ""))
    for name, seconds in found["cpu"].items():
        ratio = f"{seconds / found['cuda'][name]:>12.1f}" if len(devices) > 1 else ""
        print(f"{name:<20}" + "".join(f"{found[device][name]:>10.4f}" for device in devices) + ratio)
    if len(devices) == 1:
        print("there is no CUDA device here: nothing to hold the CPU against")


if __name__ == "__main__":
    main()
