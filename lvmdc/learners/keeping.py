"""What a learner keeps of a training, and how it takes it up again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from lvmdc import distributed
from lvmdc.joint import ClassBlocks, JointFeatureMap
from lvmdc.losses import Loss, ZeroOneLoss


@dataclass(frozen=True)
class Ended:
    """What is left of a training that went on in another learner: its state at the time.

    >>> Ended({"seed": 0}).state["seed"]
    0
    """

    state: dict[str, Any]


class Resumable:
    """All that was learned as tensors and plain data, whatever the number of ranks that learned it."""

    loss: Loss | None
    C: float
    tol: float
    joint: JointFeatureMap | None
    coef_: Tensor
    history_: list[dict[str, float]]
    n_iter_: int
    converged_: bool
    stuck_: bool
    n_classes_: int
    n_features_in_: int
    seed_: int
    _training: Any

    def _check_fitted(self, what: str) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, and all that `step` needs to go on, as tensors and plain data."""
        self._check_fitted("state_dict")
        return {
            "learner": type(self).__name__,
            "n_classes": self.n_classes_,
            "n_features": self.n_features_in_,
            "coef": self.coef_,
            "history": [dict(row) for row in self.history_],
            "converged": self.converged_,
            "stuck": self.stuck_,
            "training": self._training.state if isinstance(self._training, Ended) else self._training_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave: to go on with `step`, after `begin` on the same samples, or, without it, to predict."""
        if state["learner"] != type(self).__name__:
            raise ValueError(f"the state is that of {state['learner']}, but this is {type(self).__name__}")
        begun = hasattr(self, "_training")
        for name, mine in (("n_classes", "n_classes_"), ("n_features", "n_features_in_")):
            if begun and state[name] != getattr(self, mine):
                raise ValueError(f"the state has {name} = {state[name]}, but the data have {getattr(self, mine)}")
        self.n_classes_, self.n_features_in_ = state["n_classes"], state["n_features"]
        self.loss_ = ZeroOneLoss() if self.loss is None else self.loss
        self.joint_ = ClassBlocks(self.n_classes_) if self.joint is None else self.joint
        self.coef_, self.history_ = state["coef"], [dict(row) for row in state["history"]]
        self.n_iter_, self.converged_, self.stuck_ = len(self.history_), state["converged"], state.get("stuck", False)
        if begun:
            self._load_training(state["training"])

    def go_on_from(self, last: Self) -> None:
        """Take over the training of `last`, which differs in C alone and keeps what it has learned; nothing is checked or scored again."""
        if isinstance(last._training, Ended):
            raise RuntimeError("the training of `last` went on under another C already: call begin and load_state_dict with its state_dict")
        state = last.state_dict()
        self.load_state_dict(state)
        self._training, last._training, self.seed_ = last._training, Ended(state["training"]), last.seed_
        self.history_, self.n_iter_, self.converged_, self.stuck_ = [], 0, False, False
        self._training.change_C(self.C, self.C * self.tol)

    def _training_state(self) -> dict[str, Any]:
        t = self._training
        p, n = distributed.gather(t.candidates, t.p, "candidates"), distributed.n_samples(t.candidates)
        return {"cccp": t.cccp.state(), "p": p, "extra_passes": t.extra_passes, "samples": n, "seed": self.seed_}

    def _load_training(self, state: dict[str, Any]) -> None:
        t = self._training
        if state["samples"] != (n := distributed.n_samples(t.candidates)):
            raise ValueError(f"the state was learned from {state['samples']} samples, but there are {n}")
        t.cccp.load_state(state["cccp"])
        t.p, t.extra_passes = distributed.own(t.candidates, state["p"].to(t.p), "candidates"), state["extra_passes"]
        self.seed_ = state["seed"]
