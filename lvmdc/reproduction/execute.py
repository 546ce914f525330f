"""One run: learn, and measure on what was held out."""

from __future__ import annotations

import pkgutil
import time
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from lvmdc import metrics
from lvmdc.candidates import Candidates, Latent
from lvmdc.learners import LatentLearner, Supervised, fit_path
from lvmdc.losses import Loss
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.run import Run


def execute(run: Run, problem: Problem, memory_budget: int | None = None) -> dict[str, Any]:
    """The result of a run as plain data: what it was, its measures, what it was warned of and, in fold 0, what it predicted.

    Measures of the samples held out, all fractions: `loss` against the candidate of best overlap with the true box,
    `loss_annotated` against the true box itself (another number where the loss looks at boxes, and no candidate is the true one), `error`
    of the class, `corloc` and mean `overlap` with the true box. Of the training: `objective`, `entropy` of the posterior, outer
    iterations `n_iter`, scoring `passes`, the seed `start`, all of the start that was kept; `seconds` and
    `cpu_seconds` of all starts.

    >>> from lvmdc.data import cluttered_digits
    >>> from lvmdc.features import HOG, build_candidates
    >>> from lvmdc.proposals import WindowGrid
    >>> from lvmdc.reproduction import Division
    >>> pictures = cluttered_digits(per_class=4)
    >>> problem = Problem.of(pictures, build_candidates(pictures, WindowGrid(), HOG(), progress=False))
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
    shown = run.division.fold == 0 and not run.inner  # the fold that pictures are drawn of
    return result | ({"predictions": predictions(learner, problem, held_out)} if shown else {})


def fit(run: Run, problem: Problem, train: Tensor, **others: Any) -> list[LatentLearner]:
    """The run's learner fitted to the samples `train`, after one for each C before; only a supervised one is told the true candidates."""
    supervised = issubclass(pkgutil.resolve_name(run.learner), Supervised)
    h = problem.h[train] if supervised else None
    learner, candidates, y = run.make_learner(**others), problem.candidates.subset(train), problem.y[train]
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
