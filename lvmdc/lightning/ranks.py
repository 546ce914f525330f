"""Training over several ranks: how long they wait for each other, and how the job ends when one of them is lost."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from pytorch_lightning.utilities import rank_zero_only

log = logging.getLogger(__name__)
LOST = re.compile(r"gloo|nccl|connection|timed out|timeout|broken pipe|socket|peer", re.IGNORECASE)
GRACE = 5.0  # seconds that rank 0 has to notice by itself that a rank ended, as it does when it next waits for it
POLL = 0.2


class LostRankError(ConnectionError):
    """Another rank ended, or did not answer in time."""


def this_rank() -> int:
    """Which rank this process is, also before the ranks have met: torchrun, Lightning and SLURM say so.

    >>> this_rank()
    0
    """
    return int(getattr(rank_zero_only, "rank", 0))


def is_lost(error: BaseException) -> bool:
    """Whether this is how torch says that another rank is gone.

    >>> is_lost(RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5")), is_lost(ValueError("C"))
    (True, False)
    """
    return isinstance(error, RuntimeError) and LOST.search(str(error)) is not None


class RanksStrategy(DDPStrategy):
    """Lightning's DDP for ranks of which any may be lost: then the others end too, within `timeout` and a few seconds.

    Args:
        timeout: seconds that a rank waits for another one. What a rank does alone must take less: its part of a pass, and for rank 0
            the drawings of the report.
    """

    def __init__(self, timeout: float = 1800.0, **kwargs: Any):
        if not timeout > 0:
            raise ValueError(f"trainer.strategy.timeout must be positive, in seconds, but it is {timeout}")
        super().__init__(timeout=timedelta(seconds=timeout), find_unused_parameters=True, **kwargs)
        self.seconds = timeout
        self.on_loss: Callable[[], None] = lambda: None  # logs how to resume

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = Launcher(self, self.cluster_environment, self.num_processes, self.num_nodes)

    def on_exception(self, exception: BaseException) -> None:
        """Ends the ranks that were started from here: they would wait for this one."""
        super().on_exception(exception)
        if self._launcher is not None:
            self._launcher.kill(signal.SIGKILL)


class Launcher(_SubprocessScriptLauncher):
    """Starts the ranks as Lightning does, and ends the job when one of them is lost. Lightning's own observer kills this process before it
    can log how to resume."""

    def __init__(self, strategy: RanksStrategy, *args: Any):
        super().__init__(*args)
        self.strategy = strategy
        self.children: list[subprocess.Popen] = []

    def _call_children_scripts(self) -> None:
        super()._call_children_scripts()
        self.children, self.procs = self.procs, []
        threading.Thread(target=self._watch, name="ranks", daemon=True).start()

    def kill(self, signum: Any) -> None:
        """Send a signal to the ranks that were started from here."""
        for child in self.children:
            child.send_signal(signum)  # which does nothing to one that has ended

    def _watch(self) -> None:
        while not (lost := [child for child in self.children if child.poll()]):
            if all(child.returncode == 0 for child in self.children):
                return
            time.sleep(POLL)
        time.sleep(GRACE)
        log.error("rank %d ended with code %d, and so does the job", self.children.index(lost[0]) + 1, lost[0].returncode)
        self.strategy.on_loss()
        self.kill(signal.SIGKILL)
        logging.shutdown()
        os._exit(1)  # the main thread may be in the middle of a long pass
