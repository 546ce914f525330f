"""Runs over the cores of a machine: a finished run is never repeated, and a failed one does not stop the others."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates, Latent
from lvmdc.learners import LatentLearner
from lvmdc.losses import Loss
from lvmdc.reproduction.problem import Problem, loaded
from lvmdc.reproduction.protocol import FORMAT, Division, Run, in_order
from lvmdc.segments import segment_argmax
from lvmdc.solvers.initial import likelihood_posterior
from lvmdc.storage.files import read_json, write_atomically
from lvmdc.storage.mapped import memory_budget
from lvmdc.vision import metrics

log = logging.getLogger(__name__)
NOISE = 1e-6  # relative, on features: far below what they mean, above the rounding of single precision
DIED = "the process of this run died, probably out of memory; try a smaller n_jobs"


class Part:
    """The training samples of a division and those held out, for all runs on it: they share the likelihood start, and a training whose
    learner does not look at the loss.

    Args:
        problem: all samples.
        division: which of them train.
        noise: the seed of a relative noise of 1e-6 on the training features; 0: none.
    """

    def __init__(self, problem: Problem, division: Division, noise: int = 0):
        self.problem = problem
        self.train, self.held_out = division.parts(problem.y, problem.groups, problem.published)
        self.candidates, self.y = problem.candidates.subset(self.train), problem.y[self.train]
        if noise:
            c = self.candidates
            random = torch.randn(c.features.shape, generator=torch.Generator().manual_seed(noise))
            self.candidates = Candidates(c.features.float() * (1 + NOISE * random), c.counts, c.boxes, c.phi, c.prior)
        self._starts: dict[float, Tensor] = {}
        self._learned: tuple[str, Learned] | None = None

    def start(self, strength: float) -> Tensor:
        """(T,): the likelihood posterior, which depends on the training samples and the prior alone."""
        if strength not in self._starts:
            unknown = torch.full_like(self.y, -1)
            candidates = at_strength(self.candidates, strength)
            self._starts[strength] = likelihood_posterior(candidates, self.y, self.problem.joint_map(), unknown)
        return self._starts[strength]

    def learn(self, run: Run, memory_budget: int | None = None) -> Learned:
        """The fitted learner of a run."""
        joint = {} if self.problem.joint is None else {"joint": self.problem.joint_map()}
        learner = run.make_learner(memory_budget=memory_budget, **joint)
        key = self._decided_by(run, learner)
        if self._learned is not None and self._learned[0] == key:
            return replace(self._learned[1], seconds=0.0, cpu_seconds=0.0)
        shared = learner.init == "likelihood" and not learner.uses_known_h
        candidates = at_strength(self.candidates, run.prior_strength)
        started, worked = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            h = self.problem.h[self.train] if learner.uses_known_h and self.problem.h is not None else None
            learner.set_params(init="given" if shared else learner.init)
            learner.fit(candidates, self.y, h=h, h_init=self.start(run.prior_strength) if shared else None)
        learned = Learned(learner, list(caught), time.perf_counter() - started, time.process_time() - worked)
        self._learned = key, learned
        return learned

    def _decided_by(self, run: Run, learner: LatentLearner) -> str:
        """What a training depends on: the loss too, unless the learner looks at the costs of classes at most."""
        costs = None
        if not learner.uses_loss:
            classes = torch.arange(self.problem.n_classes)
            costs = run.make_loss().class_cost(classes[:, None], classes)
        return f"{run.learner} {run.settings} {run.loss_spec if costs is None else costs.tolist()}"


def at_strength(candidates: Candidates, strength: float) -> Candidates:
    """The candidates with their prior at that strength; 0: without it.

    >>> at_strength(Candidates(torch.eye(2), [2], prior=torch.tensor([0.0, 1.0])), 2.0).prior
    tensor([0., 2.])
    """
    prior = candidates.prior
    return candidates if prior is None or strength == 1 else candidates.with_prior(prior if strength else None, strength)


@dataclass(frozen=True)
class Learned:
    """A fitted learner, the warnings of its training, and the time that it took: 0 where another run trained it."""

    learner: LatentLearner
    caught: list[warnings.WarningMessage]
    seconds: float
    cpu_seconds: float


@lru_cache(maxsize=1)
def _part(samples: str, division: Division, noise: int) -> Part:
    """The part that a process works on."""
    return Part(loaded(samples), division, noise)


def execute(run: Run, problem: Problem, memory_budget: int | None = None, part: Part | None = None) -> dict[str, Any]:
    """The result of a run as plain data: what it was, its measures, its warnings and, in fold 0, its predictions.

    Measures of the samples held out, all fractions, where the truth is known: `loss` against the true candidate, for images that of best
    overlap with the true box, `loss_annotated` against the true box itself (another number where the loss looks at boxes, and no candidate
    is the true one), `error` of the class, `corloc` and mean `overlap` with the true box. Of the training: `objective`, `entropy` of the
    posterior, outer iterations `n_iter`, scoring `passes`, the seed `start`, all of the start that was kept; `seconds` and `cpu_seconds`
    of all starts. `posterior` says of each sample held out how sure P_θ(h | x, y) of its true y is, and whether it is right.

    >>> from lvmdc.vision.datasets import cluttered_digits
    >>> from lvmdc.vision.features import HOG, build_candidates
    >>> from lvmdc.vision.proposals import WindowGrid
    >>> images = cluttered_digits(per_class=4)
    >>> problem = Problem.of(images, build_candidates(images, WindowGrid(), HOG(), progress=False))
    >>> spec = '{"_target_": "lvmdc.ZeroOneLoss"}'
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", spec, (("C", 1.0), ("seed", 3)), (("C", 1.0),), Division(fold=0), problem.key)
    >>> measures = execute(run, problem)["measures"]
    >>> measures["error"] <= measures["loss"] <= 1, measures["start"]
    (True, 3)
    """
    part = Part(problem, run.division, run.noise) if part is None else part
    learned = part.learn(run, memory_budget)
    learner, last = learned.learner, learned.learner.history_[-1]
    measures: dict[str, float | None] = {**measure(learner, run.make_loss(), problem, part.held_out), "objective": learner.objective_}
    measures |= {"entropy": last.get("entropy"), "n_iter": learner.n_iter_, "passes": last.get("passes"), "start": learner.seed_}
    measures |= {"seconds": learned.seconds, "cpu_seconds": learned.cpu_seconds}
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in learned.caught)
    messages = list(dict.fromkeys(str(w.message) for w in learned.caught))
    result = {"run": run.describe(), "measures": measures, "converged": converged, "warnings": messages}
    if run.inner or run.noise:
        return result
    problem = replace(problem, candidates=at_strength(problem.candidates, run.prior_strength))  # P_θ holds with the prior it learned with
    posterior = certainty(learner, problem, part.held_out)
    result |= {} if posterior is None else {"posterior": posterior}
    drawn = run.division.fold == 0 and problem.truth is not None  # the fold that images are drawn of
    return result | ({"predictions": predictions(learner, problem, part.held_out)} if drawn else {})


def certainty(learner: LatentLearner, problem: Problem, held_out: Tensor) -> dict[str, list[float]] | None:
    """The probability of the most probable h of each sample held out by P_θ(h | x, y) of its true y, whether that is the `true` h, and the
    probability of the true h; None where h is unknown, or P_θ is all on one."""
    if problem.h is None:
        return None
    candidates, h = problem.candidates.subset(held_out), problem.h[held_out]
    p = learner.predict_latent_proba(candidates, problem.y[held_out]).double()
    if int((p > 0).sum()) <= len(candidates):
        return None
    top = segment_argmax(p, candidates.counts)
    right = (top == candidates.rows(h)).double()
    found = {"confidence": p[top], "right": right, "of_truth": p[candidates.rows(h)]}
    return {name: [round(v, 6) for v in values.tolist()] for name, values in found.items()}


def measure(learner: LatentLearner, loss: Loss, problem: Problem, held_out: Tensor) -> dict[str, float]:
    """Loss, class error and localisation of a fitted learner on the samples `held_out`, as far as the truth is known."""
    candidates, y = problem.candidates.subset(held_out), problem.y[held_out]
    y_hat, h_hat = learner.predict(candidates)
    error = metrics.class_error(y, y_hat)
    if problem.h is None:
        if not loss.of_label:
            raise ValueError(f"{loss!r} cannot be measured, because the true h is unknown: use losses.label alone")
        return {"loss": float(loss.between(candidates, y, h_hat, y_hat, h_hat).mean()), "error": error}
    h = problem.h[held_out]
    found = {"loss": metrics.test_loss(loss, candidates, y, h, y_hat, h_hat), "error": error}
    if problem.truth is None:
        return found | {"latent_error": float((h != h_hat).double().mean())}
    truth = problem.truth[held_out]
    # The true box in the place of the candidate's; a loss that asks which candidate it is sees the same one.
    annotated = Latent(h, truth.to(candidates.boxes), candidates.rows(h))
    delta = loss.delta(y, annotated, y_hat, candidates.latent(candidates.rows(h_hat)))
    return found | {
        "loss_annotated": float(delta.double().expand(len(y)).mean()),
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


# ---- results on disk -------------------------------------------------------------------------------------------------


class Store:
    """`runs/<key>.json` for every finished run, `failed/<key>.txt` for every one that failed the last time.

    >>> import tempfile
    >>> from lvmdc.reproduction import Division
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", '{"_target_": "lvmdc.ZeroOneLoss"}', (("C", 1.0),), (), Division(fold=0), "data")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.read(run), store.write(run, {"measures": {"loss": 0.5}}), store.read(run)["measures"]
    (None, None, {'loss': 0.5})
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, run: Run) -> Path:
        """Where the result of a run is."""
        return self.folder / "runs" / f"{run.key}.json"

    def failure(self, run: Run) -> Path:
        """Where the error of a run that failed is."""
        return self.folder / "failed" / f"{run.key}.txt"

    def read(self, run: Run) -> dict[str, Any] | None:
        """The result of a run; None where it is not finished, or its file is damaged, with a warning."""
        path = self.path(run)
        if not path.exists():
            return None
        try:
            result = read_json(path)
            _check_result(result)
            return result
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the result %s is damaged, and its run is repeated: %s", path, error)
            return None

    def write(self, run: Run, result: dict[str, Any]) -> None:
        """Keep a result, with the state of the code that made it; an earlier failure is forgotten."""
        kept = {"format": FORMAT, "code": code_digest(), "made": made_here()} | result
        write_atomically(self.path(run), json.dumps(kept, indent=1, ensure_ascii=False).encode())
        self.failure(run).unlink(missing_ok=True)

    def fail(self, run: Run, text: str) -> None:
        """Keep why a run failed."""
        about = json.dumps(run.describe(), ensure_ascii=False)
        write_atomically(self.failure(run), f"{about}\n\n{text}".encode(errors="backslashreplace"))

    def clear(self, run: Run) -> None:
        """Forget the result and the failure of a run."""
        self.path(run).unlink(missing_ok=True)
        self.failure(run).unlink(missing_ok=True)

    def ended(self, run: Run) -> bool:
        """Whether a run has a result or failed."""
        return self.path(run).exists() or self.failure(run).exists()

    def died(self, run: Run) -> bool:
        """Whether a run began and neither finished nor raised an error."""
        return self.failure(run).exists() and self.failure(run).read_text(encoding="utf-8").endswith(DIED)


def _check_result(result: Any) -> None:
    """Refuse a result that the figure, the tables and the images cannot be made from."""
    measures, found = result["measures"], result.get("predictions", {})
    lists = [found["y"], found["h"], found.get("p") or []] if found else []
    numbers = [measures["loss"], *(value for value in measures.values() if value is not None), *(v for values in lists for v in values)]
    if not all(type(value) in (int, float) for value in numbers):
        raise ValueError("a measure or prediction is not a number")
    if not isinstance(result.get("converged", False), bool) or not isinstance(result.get("warnings", []), list):
        raise ValueError("converged must be true or false, and warnings a list")


def made_here() -> str:
    """The date, the versions and the machine of a result.

    >>> made_here().startswith("20")
    True
    """
    processor = platform.processor() or platform.machine()
    return f"{date.today()}, lvmdc {version('lvmdc')}, torch {torch.__version__}, {cpu_count()} cores ({platform.system()}, {processor})"


@cache
def code_digest() -> str:
    """A hash of the code that decides what is learned: it shows which results other code has made.

    >>> len(code_digest())
    16
    """
    package, key = Path(__file__).resolve().parents[1], hashlib.sha256()
    learning = [package / part for part in ("losses", "distributions", "solvers", "learners", "sequences", "vision/metrics")]
    files = [*package.glob("*.py"), *(path for folder in learning for path in folder.rglob("*.py"))]
    files += [package / "reproduction" / name for name in ("problem.py", "protocol.py", "runner.py")]
    for path in sorted(files):
        key.update(f"{path.relative_to(package).as_posix()} ".encode() + path.read_bytes())
    return key.hexdigest()[:16]


# ---- many runs -------------------------------------------------------------------------------------------------------


def do_runs(
    runs: Sequence[Run], samples: str, store: Store, n_jobs: int | None = None, memory: int | None = None, bar: tqdm | None = None
) -> None:
    """Do runs, each in one of `n_jobs` processes with one thread.

    Results and failures are in the store, written by the processes themselves: an interruption loses only the runs under way.

    Args:
        runs: what to do.
        samples: the file of the `Problem`.
        store: where results go.
        n_jobs: processes; as many as the machine has cores where not given.
        memory: bytes for tables of Δ in all processes together; a quarter of what is free where not given.
        bar: counts the runs that have ended.

    >>> do_runs([], "samples.npz", Store("nowhere"))
    """
    jobs = min(n_jobs or cpu_count(only_physical_cores=True), max(1, len(runs)))
    each = memory_budget(torch.device("cpu"), memory) // jobs
    for run in runs:
        store.clear(run)
    batches, bar = [in_order(runs)], tqdm(disable=True) if bar is None else bar
    while batches:
        batch = batches.pop(0)
        try:
            for _ in _parallel(batch, samples, store, jobs, each):
                bar.update()
        except BrokenProcessPool:  # a process was killed, and took the others with it
            begun = [run for run in batch if store.died(run)]
            if not begun:
                raise
            if len(batch) == 1:
                bar.update()
            else:  # one of those that were under way is to blame: each is repeated alone
                left = [run for run in batch if not store.ended(run)]
                batches += [part for part in (left, *([run] for run in begun)) if part]
        except BaseException:
            if jobs > 1:
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
            for run in runs:
                if store.died(run):
                    store.failure(run).unlink()
            raise


def _parallel(batch: Sequence[Run], samples: str, store: Store, jobs: int, memory: int) -> Iterator[None]:
    """Do runs, one after the other or in several processes; yields as each ends."""
    if jobs == 1:
        threads = torch.get_num_threads()
        try:
            for run in batch:
                _work([run], samples, store, memory)
                yield
        finally:
            torch.set_num_threads(threads)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        # Runs that differ in the loss alone may share a training.
        alike = groupby(batch, key=lambda run: (run.learner, run.settings, run.division, run.data, run.noise))
        for done in pool(delayed(_work_apart)(list(group), samples, store, memory) for _, group in alike):
            yield from [None] * done


def _work_apart(runs: Sequence[Run], samples: str, store: Store, memory: int) -> int:
    """`_work` in another process, which leaves Ctrl-C to the one that started it; how many runs were done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work(runs, samples, store, memory)
    return len(runs)


def _work(runs: Sequence[Run], samples: str, store: Store, memory: int) -> None:
    """Do runs one after the other; an error is kept with its traceback."""
    torch.set_num_threads(1)
    for run in runs:
        store.fail(run, DIED)  # what is left behind if the process is killed
        try:
            store.write(run, execute(run, loaded(samples), memory, _part(samples, run.division, run.noise)))
        except Exception:  # whatever it is, other runs can go on
            store.fail(run, traceback.format_exc())
