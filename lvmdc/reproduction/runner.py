"""One run: learn, and measure on what was held out."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates, Latent
from lvmdc.learners import LatentLearner, fit_path
from lvmdc.losses import Loss
from lvmdc.reproduction.plan import tasks
from lvmdc.reproduction.problem import Problem, loaded
from lvmdc.reproduction.protocol import Run
from lvmdc.reproduction.store import Store
from lvmdc.storage.mapped import memory_budget
from lvmdc.vision import metrics


def execute(run: Run, problem: Problem, memory_budget: int | None = None) -> dict[str, Any]:
    """The result of a run as plain data: what it was, its measures, what it was warned of and, in fold 0, what it predicted.

    Measures of the samples held out, all fractions: `loss` against the candidate of best overlap with the true box,
    `loss_annotated` against the true box itself (another number where the loss looks at boxes, and no candidate is the true one), `error`
    of the class, `corloc` and mean `overlap` with the true box. Of the training: `objective`, `entropy` of the posterior, outer
    iterations `n_iter`, scoring `passes`, the seed `start`, all of the start that was kept; `seconds` and
    `cpu_seconds` of all starts.

    >>> from lvmdc.vision.datasets import cluttered_digits
    >>> from lvmdc.vision.features import HOG, build_candidates
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> from lvmdc.reproduction import Division
    >>> images = cluttered_digits(per_class=4)
    >>> problem = Problem.of(images, build_candidates(images, WindowGrid(), HOG(), progress=False))
    >>> spec = '{"_target_": "lvmdc.ZeroOneLoss"}'
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", spec, (("C", 1.0), ("seed", 3)), (("C", 1.0),), Division(fold=0), problem.key)
    >>> measures = execute(run, problem)["measures"]
    >>> measures["error"] <= measures["loss"] <= 1, measures["start"]
    (True, 3)
    """
    return execute_path([run], problem, memory_budget)[0]


def execute_path(runs: Sequence[Run], problem: Problem, memory_budget: int | None = None) -> list[dict[str, Any]]:
    """The results of runs that differ in C alone, the last of which comes through the C of all others; each has its share of the time."""
    longest = runs[-1]
    path = [*longest.before, longest.setting("C")]
    train, held_out = longest.division.parts(problem.y, problem.groups)
    started, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learners = fit(longest, problem, train, memory_budget=memory_budget)
    spent = time.perf_counter() - started, time.process_time() - worked
    told = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    took = [sum(row["seconds"] for row in learner.history_) for learner in learners]
    results = []
    for run in runs:
        k = path.index(run.setting("C"))
        share = took[k] / sum(took)
        results.append(_result(run, problem, learners[k], held_out, told, (share * spent[0], share * spent[1])))
    return results


def _result(
    run: Run, problem: Problem, learner: LatentLearner, held_out: Tensor, told: list[warnings.WarningMessage], spent: tuple[float, float]
) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.warn_if_unfinished()
    measures: dict[str, float | None] = {**measure(learner, run.make_loss(), problem, held_out)}
    last = learner.history_[-1]
    measures |= {"objective": learner.objective_, "entropy": last.get("entropy"), "n_iter": learner.n_iter_, "passes": last.get("passes")}
    measures |= {"start": learner.seed_, "seconds": spent[0], "cpu_seconds": spent[1]}
    words = list(dict.fromkeys(str(w.message) for w in [*told, *caught]))
    result = {"run": run.describe(), "measures": measures, "converged": not caught, "warnings": words}
    shown = run.division.fold == 0 and not run.inner  # the fold that images are drawn of
    return result | ({"predictions": predictions(learner, problem, held_out)} if shown else {})


def fit(run: Run, problem: Problem, train: Tensor, **others: Any) -> list[LatentLearner]:
    """The run's learner fitted to the samples `train`, after one for each C before; only a supervised one is told the true candidates."""
    learner, candidates, y = run.make_learner(**others), problem.candidates.subset(train), problem.y[train]
    h = problem.h[train] if learner.uses_known_h else None
    return fit_path(learner, candidates, y, [*run.before, learner.C], h) if run.before else [learner.fit(candidates, y, h=h)]


def measure(learner: LatentLearner, loss: Loss, problem: Problem, held_out: Tensor) -> dict[str, float]:
    """Loss, class error and localisation of a fitted learner on the samples `held_out`."""
    candidates, y, h, truth = problem.candidates.subset(held_out), problem.y[held_out], problem.h[held_out], problem.truth[held_out]
    y_hat, h_hat = learner.predict(candidates)
    return {
        "loss": metrics.test_loss(loss, candidates, y, h, y_hat, h_hat),
        "loss_annotated": _annotated_loss(loss, candidates, y, h, truth, y_hat, h_hat),
        "error": metrics.class_error(y, y_hat),
        "corloc": metrics.corloc(candidates, h_hat, truth),
        "overlap": metrics.mean_overlap(candidates, h_hat, truth),
    }


def predictions(learner: LatentLearner, problem: Problem, held_out: Tensor) -> dict[str, Any]:
    """Class `y` and candidate `h` of each sample held out, and P_θ(h|x,y) over their candidates, `p`, where it is not all on one."""
    candidates = problem.candidates.subset(held_out)
    y_hat, h_hat = learner.predict(candidates)
    p = learner.predict_latent_proba(candidates, problem.y[held_out])
    spread = int((p > 0).sum()) > len(candidates)
    return {"y": y_hat.tolist(), "h": h_hat.tolist(), "p": [round(v, 6) for v in p.tolist()] if spread else None}


def _annotated_loss(loss: Loss, candidates: Candidates, y: Tensor, h: Tensor, truth: Tensor, y_hat: Tensor, h_hat: Tensor) -> float:
    """The loss with the true box itself in the place of the candidate's; a loss that asks which candidate it is sees the same one."""
    rows = candidates.rows(h)
    one, two = Latent(h, truth.to(candidates.boxes), rows), candidates.latent(candidates.rows(h_hat))
    return float(loss.delta(y, one, y_hat, two).double().expand(len(y)).mean())


# Many runs over the cores of a machine: what is done stays done, and a run that fails does not end the others.

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
