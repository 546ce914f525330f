"""Processes that start in a moment: they are forked from a server that has imported the package once."""

import os
import runpy
import signal
import sys
from pathlib import Path

import torch.multiprocessing

ROOT = Path(__file__).resolve().parents[1]
FORKED = torch.multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["pytorch_lightning", "lvmdc.cli.train", "lvmdc.cli.train", "lvmdc.cli.reproduce"])


def start_ranks(function, folder, count=2):
    """Call `function(rank, folder)` in one process for each rank, and wait for all."""
    torch.multiprocessing.start_processes(function, (folder,), nprocs=count, start_method="forkserver")


def _run(words, folder, output, module):
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        signal.signal(number, handler)  # a shell's background jobs pass on that they ignore Ctrl-C
    os.chdir(folder)
    # The ranks that a script starts are new processes, which find the tests by this.
    os.environ |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "OMP_NUM_THREADS": "1"}
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(written, stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
    sys.argv = list(words)
    if module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


class Script:
    """`python words…` in a process of its own, whose output goes to a file: a script, or with `module` a module as by `python -m`."""

    def __init__(self, folder, *words, module=False):
        self.output = Path(folder) / f"output {len(list(Path(folder).glob('output *')))}"
        self.process = FORKED.Process(target=_run, args=([str(word) for word in words], str(folder), str(self.output), module))
        self.process.start()

    @property
    def pid(self):
        return self.process.pid

    @property
    def running(self):
        return self.process.is_alive()

    def end(self, timeout=300):
        """Wait for it: its exit code and all that it printed."""
        self.process.join(timeout)
        assert not self.running, f"it did not end within {timeout} s"
        return self.process.exitcode, self.output.read_text() if self.output.exists() else ""


def train_script(folder, *words):
    """`python scripts/train.py words…`, with its run folders under `folder`."""
    return Script(folder, ROOT / "scripts" / "train.py", *words, f"paths.log_dir={folder}")
