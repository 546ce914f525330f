"""w and θ by the exact solver, on features that are held."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from torch import Tensor

from lvmdc.inference import best_of_class
from lvmdc.learners import DISC, LatentLearner, Supervised
from lvmdc.training.batches import TrainingSet
from lvmdc.training.pair import Pair


def solve_heads(learner: LatentLearner, samples: TrainingSet, scores: Tensor | None = None) -> dict[str, Any]:
    """Minimise (11) over w and θ as `learner.fit` does, on the features of all samples as they are; what `Pair.load_learned` takes.

    Args:
        scores: (T, K) of a w that is at hand: CCCP starts from its h*, and not from the learner's `init`.
    """
    c, y = samples.candidates.detach(), samples.y
    exact: LatentLearner = clone(learner).set_params(n_classes=samples.n_classes)
    known = samples.known
    h = (known - c.offsets).where(known >= 0, known) if isinstance(learner, Supervised) else None
    h_init = None
    if scores is not None:
        exact.set_params(init="given")
        h_init = c.index(best_of_class(c, scores, y))
    exact.fit(c, y, h=h, h_init=h_init)
    found: dict[str, Any] = {"prediction": {"w": exact.coef_}}
    return found | {"theta": dict(exact.model_.state_dict())} if isinstance(exact, DISC) else found


def check_linear(learner: LatentLearner, options: dict[str, Any]) -> None:
    """Refuse heads that the exact solver cannot solve."""
    own = options.get("prediction") or options.get("conditional")  # a group that is empty says none
    if own or not isinstance(getattr(learner, "conditional", "log_linear"), str):
        raise ValueError(
            "begin and finish must be 'steps' where prediction or conditional is a network: the exact solver is for linear ones"
        )


def load_heads(pair: Pair, found: dict[str, Any]) -> None:
    """Both distributions go where the exact solver ended."""
    like = dict(pair.p_w.named_parameters())["w"]
    pair.load_learned(found | {"prediction": {"w": found["prediction"]["w"].reshape(like.shape)}})
