"""A sweep over C that starts each training where the last one ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tqdm import tqdm

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.learners import checks
from lvmdc.learners.base import LatentLearner

Learner = TypeVar("Learner", bound=LatentLearner)


def fit_path(
    model: Learner,
    candidates: Candidates,
    y: ArrayLike,
    C: Sequence[float],
    h: ArrayLike | None = None,
    h_init: ArrayLike | None = None,
    prior: ArrayLike | None = None,
) -> list[Learner]:
    """A copy of `model` fitted for every C in the order given; w, θ, h* and the planes of the dual go from one to the next.

    The dual weights of a sample sum to C/n (14), so that those of another C are a good start once rescaled, and a path costs
    less than separate fits. Each end is one that a training at that C accepts, but the problem is not convex, so that it may differ from
    that of a fresh start: from small C to large, h* is settled while the margin is soft. With `n_init` there is a path from each start,
    and for each C the lowest objective is kept. The column `passes` of the histories counts from the beginning of the path.

    >>> from lvmdc import Supervised
    >>> path = fit_path(Supervised(), Candidates(torch.eye(2), [1, 1]), [0, 1], C=[0.5, 2.0], h=[0, 0])
    >>> [round(model.objective_, 3) for model in path]
    [0.375, 0.5]
    """
    if len(C) == 0:
        raise ValueError("C must have at least one value, but it is empty")
    candidates = checks.with_prior(candidates, prior)
    found: list[Learner] = []
    steps = tqdm(total=model.n_init * len(C), desc="path", unit="training", disable=not model.verbose)
    for start in range(model.n_init):
        last: Learner | None = None
        for k, value in enumerate(C):
            learner = model.clone().set_params(C=value, n_init=1, verbose=False)
            if last is None:
                learner.begin(candidates, y, h, h_init, model.seed + start)
            else:
                learner.check_parameters()
                learner.go_on_from(last)
            learner._run("")
            last = learner
            learner.set_params(n_init=model.n_init, verbose=model.verbose)
            if start == 0:
                found.append(learner)
            elif learner.objective_ < found[k].objective_:
                found[k] = learner
            steps.update()
    steps.close()
    for learner in found:
        learner.warn_if_unfinished()
    return found
