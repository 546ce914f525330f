"""Many runs over the cores of a machine: what is done stays done, and a run that fails does not end the others."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import torch
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from tqdm import tqdm

from lvmdc.memory import memory_budget
from lvmdc.reproduction.execute import execute_path
from lvmdc.reproduction.plan import tasks
from lvmdc.reproduction.problem import loaded
from lvmdc.reproduction.run import Run
from lvmdc.reproduction.store import Store

ENDED = "its process ended without a word, perhaps for want of memory"


@dataclass(frozen=True)
class Used:
    """How many processes did the runs, and the most memory, in bytes, that they and this one can have held at a time."""

    processes: int
    peak: int


@dataclass(frozen=True)
class Worked:
    """What a process says of a task: how many runs it did, which process it is, and the most memory it ever held, in bytes."""

    runs: int
    process: int
    peak: int


def do_runs(
    runs: Sequence[Run], samples: str, store: Store, n_jobs: int | None = None, memory: int | None = None, progress: bool = True
) -> Used:
    """Do runs, each in one of `n_jobs` processes with one thread, and say what it took.

    Results and failures are in the store, written by the processes themselves: an interruption loses only the runs under way.

    Args:
        runs: what to do.
        samples: the file of the `Problem`.
        store: where results go.
        n_jobs: processes; as many as the machine has cores where not given.
        memory: bytes for tables of Δ in all processes together; a quarter of what is free where not given.
        progress: show a bar that counts runs.

    >>> do_runs([], "samples.npz", Store("nowhere"), progress=False).processes
    1
    """
    jobs = min(n_jobs or cpu_count(only_physical_cores=True), max(1, len(runs)))
    each = memory_budget(torch.device("cpu"), memory) // jobs
    peaks: dict[int, int] = {}
    for run in runs:
        store.clear(run)
    batches = [list(runs)]
    with tqdm(total=len(runs), desc="runs", unit="run", disable=not progress, smoothing=0) as bar:
        while batches:
            batch = batches.pop(0)
            try:
                for worked in _dispatched(batch, samples, store, jobs, each):
                    bar.update(worked.runs)
                    peaks[worked.process] = max(worked.peak, peaks.get(worked.process, 0))
            except BrokenProcessPool as error:  # a process was ended from outside, and took the others with it
                ended = [run for run in batch if store.is_running(run)]
                if not ended:
                    raise
                for run in ended:
                    store.end(run)
                rest = [run for run in batch if run not in ended and not store.path(run).exists() and not store.failure(run).exists()]
                batches = [part for part in (rest, *batches) if part]
                if len(ended) == 1:
                    store.fail(ended[0], f"{ENDED}; try n_jobs={max(1, jobs - 1)}\n\n{error}")
                    bar.update()
                else:
                    batches += [[run] for run in ended]  # one of them is to blame, and is told by running each alone
            except BaseException:
                if jobs > 1:
                    get_reusable_executor().shutdown(wait=True, kill_workers=True)
                for run in runs:
                    store.end(run)
                raise
    # Processes may have been replaced in between: at any time there were so many, none larger than the largest ever.
    workers = sorted((peak for process, peak in peaks.items() if process != os.getpid()), reverse=True)
    return Used(jobs, peak_memory() + sum(workers[:jobs]))


def _dispatched(runs: Sequence[Run], samples: str, store: Store, jobs: int, memory: int) -> Iterator[Worked]:
    if jobs == 1:
        threads = torch.get_num_threads()
        try:
            yield from (work(task, samples, store, memory) for task in tasks(runs))
        finally:
            torch.set_num_threads(threads)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from pool(delayed(work_apart)(task, samples, store, memory) for task in tasks(runs))


def work_apart(task: Sequence[Run], samples: str, store: Store, memory: int) -> Worked:
    """`work` in a process of its own, which leaves Ctrl-C to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return work(task, samples, store, memory)


def work(task: Sequence[Run], samples: str, store: Store, memory: int) -> Worked:
    """Do the runs of a task; what goes wrong is kept, with its traceback."""
    torch.set_num_threads(1)
    for run in task:
        store.begin(run)
    try:
        for run, result in zip(task, execute_path(task, loaded(samples), memory), strict=True):
            store.write(run, result)
    except Exception:  # whatever it is, other tasks can go on
        for run in task:
            store.fail(run, traceback.format_exc())
    finally:
        for run in task:
            store.end(run)
    return Worked(len(task), os.getpid(), peak_memory())


def peak_memory() -> int:
    """The most memory, in bytes, that this process ever held; 0 where the system does not tell.

    >>> peak_memory() >= 0
    True
    """
    try:  # Linux: getrusage would count what the process was forked from too
        held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(held.split()[1]) * 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # in kilobytes everywhere else
