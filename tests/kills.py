"""Kill a training at random moments with SIGKILL: it must resume each time and end in the same objective.

`python tests/kills.py 20` kills 20 runs, prints what became of each, and ends with code 1 if one did not end as the unbroken run did.
Runs are forks of this process, which has loaded everything already: loading takes longer than such a training.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

import lvmdc.cli.train  # noqa: F401  so that forks need not load it
from lvmdc.lightning.checkpoint import read_checkpoint

TRAIN = Path(__file__).resolve().parents[1] / "scripts" / "train.py"
OVERRIDES = [
    "experiment=object_detection", "callbacks=checkpoint", "logger=csv", "extras.progress=false", "extras.threads=1",
    "extras.report=false", "data.images.per_class=12",
]  # fmt: skip
SOLVERS = {  # β falls by a third an iteration from 0.5 to 0.1, and learning does not end before
    "exact": ["method.init=uniform", "method.C=5", "method.tol=0.00001", "method.anneal=0.5", "method.beta=0.1"],
    "stochastic": ["method=lsvm", "method.init=random", "method.C=10", "module=dual", "trainer.max_epochs=20"],
}


def start(folder: Path, *words: str) -> int:
    """The process of a run whose files are below `folder`; what it says goes to a file there."""
    pid = os.fork()
    if pid:
        return pid
    shown = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(shown, 1)
    os.dup2(shown, 2)
    os.chdir(folder)
    sys.argv = ["train.py", *OVERRIDES, f"paths.log_dir={folder}", f"data.cache_dir={folder.parent}/cache", *words]
    code = 1
    try:
        runpy.run_path(str(TRAIN), run_name="__main__")
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def finish(folder: Path, *words: str) -> float:
    """The objective at the end of a run that is left alone."""
    _, status = os.waitpid(start(folder, *words), 0)
    (results,) = folder.glob("*/runs/*/results.json")
    assert status == 0, (folder / "output.txt").read_text()
    return json.loads(results.read_text())["objective"]


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run that was killed. Every checkpoint must be whole; one that is not raises."""
    found = sorted(folder.glob("*/runs/*/checkpoints/*.ckpt"))
    for path in found:
        read_checkpoint(path).model()
    return next((path for path in found if path.name == "last.ckpt"), None)


def kill_once(folder: Path, moment: float, words: list[str], wait: bool) -> tuple[str, float]:
    """Kill a run a number of seconds after its start or its first checkpoint, then resume it: where it resumed, and its objective."""
    folder.mkdir()
    pid = start(folder, *words)
    while wait and not list(folder.glob("*/runs/*/checkpoints/last.ckpt")):
        time.sleep(0.01)
    time.sleep(moment)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:  # nothing was learned yet
        again = folder.with_name(f"{folder.name}_again")
        again.mkdir()
        return "start", finish(again, *words)
    done = len(read_checkpoint(checkpoint).model().history())
    return f"iteration {done}", finish(folder, *words, f"ckpt_path={checkpoint}")


def main(kills: int) -> bool:
    """Whether all of them, half under each solver, ended in the objective of the unbroken run."""
    torch.set_num_threads(1)
    rng, same = random.Random(0), 0
    for i, (solver, words) in enumerate(SOLVERS.items()):
        with tempfile.TemporaryDirectory() as root:
            for name in ("cached", "unbroken"):  # the first computes the candidates
                Path(root, name).mkdir()
                started = time.perf_counter()
                expected = finish(Path(root, name), *words)
            seconds = time.perf_counter() - started
            print(f"{solver}, unbroken: objective {expected:.9f} in {seconds:.1f} s", flush=True)
            for k in range(i, kills, len(SOLVERS)):
                wait = k // len(SOLVERS) % 2 == 1  # every other one: while it learns, however busy the machine is
                moment = rng.uniform(0, 0.3) * seconds if wait else rng.uniform(0.1, 0.9) * seconds
                where, objective = kill_once(Path(root, str(k)), moment, words, wait)
                same += abs(objective - expected) <= 1e-6
                since = "the first checkpoint" if wait else "the start"
                print(f"  killed {moment:.2f} s after {since:20}, resumed from {where:13} objective {objective:.9f}", flush=True)
    print(f"{same} of {kills} ended in the same objective")
    return same == kills


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
