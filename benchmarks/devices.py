"""A scoring pass, the expected loss, a latent SVM and DISC on every device there is: seconds on the clock, the least of three.

Candidates as in growth.py: 2,000 samples of 50 boxes with 512 features, six classes; float32, torch's own number of threads. The expected
loss is the overlap loss's, which is computed as it is summed on a CPU and from blocks of Δ on other devices.

    python benchmarks/devices.py [samples, 2000]
"""

import sys
import time
import warnings
from collections.abc import Callable

import torch
from growth import samples
from record import record

from lvmdc import DISC, LSVM, ConvergenceWarning, LabelLoss, OverlapLoss
from lvmdc.feature_maps import ClassBlocks
from lvmdc.losses import ExpectedLoss

CLASSES = 6


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
