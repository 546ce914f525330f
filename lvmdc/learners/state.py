"""The state of a training: its samples, its blocks, its posterior, and how it is saved and restored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.distributions import Conditional, score_dtype
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.inference import best
from lvmdc.losses import Loss, ZeroOneLoss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import Objective, half_square, slack
from lvmdc.solvers.choice import latent_block
from lvmdc.solvers.w_block import Point, StructuredHinge, Truth

# What a learner keeps of a training, and how it takes it up again.


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


# The working parts of one training: its samples, its blocks, its posterior.

if TYPE_CHECKING:
    from lvmdc.learners.base import LatentLearner
    from lvmdc.learners.checks import Checked

# ε below which float32 cannot tell the gap: its scores are off by 1e-7 of ‖w‖ ‖Ψ‖, and dual steps at such scores go back and forth.
FINE = 1e-5


class Training:
    """What a learner works with between `begin` and the last `step`: bound loss, w block, and the current P_θ as probabilities `p` (T,)."""

    def __init__(self, learner: LatentLearner, samples: Checked):
        candidates, y, known = self.candidates, self.y, self.known = samples.candidates, samples.y, samples.known
        self.C = learner.C
        self.bound = ExpectedLoss(learner.loss_, candidates, y, learner.n_classes_, learner.memory_budget)
        joint = learner.joint_.precise() if learner.tol < FINE else learner.joint_
        self.hinge = StructuredHinge(candidates, y, joint, learner.C, known, learner.memory_budget)
        belief = learner.start_posterior(samples)
        self.start = learner.start_truth(candidates, belief)
        truth = Truth(self.hinge, self.start)
        self.cccp = latent_block(self.hinge, learner.solver, learner.cccp, learner.C * learner.tol, truth, learner.seed_)
        self.p = self._start = self.start.to(score_dtype(candidates))
        self.belief = belief.to(self.p)  # about h at the start, of which `start` is the most probable
        self.extra_passes = 0
        self._expected: tuple[Tensor, Tensor] | None = None  # of which posterior, and what

    def change_C(self, C: float, tol: float) -> None:
        """Go on under another C, with tol = C·ε."""
        self.C = C
        self.cccp.change_C(C, tol)

    @property
    def point(self) -> Point:
        """Where w stands, with its scores."""
        return self.cccp.point

    @property
    def passes(self) -> float:
        """Passes over the features so far, of w and θ."""
        return self.hinge.passes + self.extra_passes

    def expected_loss(self) -> Tensor:
        """(T, K): Δ_i(y, h; θ) under the current posterior."""
        return self.expected_loss_of(self.p)

    def expected_loss_of(self, p: Tensor) -> Tensor:
        """(T, K): Δ_i(y, h; θ) under a posterior (T,)."""
        if self.bound.loss.of_label:  # nor does its expectation depend on h, to the last digit: every P_θ leads to the same end
            p = self._start
        if self._expected is None or self._expected[0] is not p:
            self._expected = p, self.bound.expected_loss(p)
        return self._expected[1]

    def delta(self, rows: Tensor) -> Tensor:
        """(T,): the posterior that puts all mass on packed rows (n,)."""
        return torch.zeros_like(self.p).index_fill(0, rows, 1.0)

    def imputed(self) -> Tensor:
        """(n,) h* as packed rows, by the current w."""
        return self.hinge.impute(self.point.scores)

    def objective(self, beta: float = 0.0, theta_norm: float = 0.0) -> Objective:
        """(11) by its terms, under the current w and posterior."""
        xi = slack(self.candidates, self.point.scores, self.expected_loss(), self.y, self.known)
        diversity = self.mean(self.bound.diversity(self.p))
        return Objective(half_square(self.point.w), theta_norm, self.mean(xi), diversity, self.C, beta)

    def mean(self, values: Tensor) -> float:
        """Over the samples of all ranks."""
        return float(distributed.mean(self.candidates, values))

    def measures(self) -> dict[str, float]:
        """Columns of the history beside the objective: the expected loss of the prediction (8), class error, entropy of the posterior."""
        y_hat, rows = best(self.candidates, self.point.scores)
        return {
            "loss": self.mean(self.bound.expected_at(self.p, y_hat, rows)),
            "error": self.mean(y_hat != self.y),
            "entropy": self.mean(Conditional(self.candidates, self.y, self.p).entropy()),
        }
