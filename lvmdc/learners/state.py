"""The state of a training: its samples, their loss, w and the posterior of h. One base, and the variant of learners by CCCP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.distributions import score_dtype
from lvmdc.inference import best
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import Objective, half_squares, measures, slack
from lvmdc.solvers.choice import latent_block
from lvmdc.solvers.w_block import ImputedLatents, Point, StructuredHinge

if TYPE_CHECKING:
    from lvmdc.learners.base import LatentLearner
    from lvmdc.learners.checks import Checked

FINE = 1e-5  # the ε below which float32 is too coarse: its scores are off by 1e-7 of ‖w‖ ‖Ψ‖, and dual steps at such scores oscillate


@dataclass(frozen=True)
class Ended:
    """What is left of a training that another learner continued: its state at the time."""

    state: dict[str, Any]


class Training:
    """What a learner works with between `begin` and the last `step`.

    `point` is the current w, `p` (T,) the current posterior, `passes` the number of passes over the features so far. `start` (T,) in
    float64 and `belief`, the same in the precision of scores, are what is believed of h at the start; `from_belief` says whether that is a
    distribution, of which h* is the most probable.
    """

    point: Point
    passes: float

    def __init__(self, learner: LatentLearner, samples: Checked):
        self.candidates, self.y, self.known, self.C = samples.candidates, samples.y, samples.known, learner.C
        self.loss = ExpectedLoss(learner.loss_, self.candidates, self.y, learner.n_classes_, learner.memory_budget)
        self.start, self.from_belief = learner.start_posterior(samples), learner.starts_from_belief(samples)
        self.belief = self.p = self.start.to(score_dtype(self.candidates))
        self._predicted: tuple[Point, tuple[Tensor, Tensor]] | None = None  # by which w, and what

    @cached_property
    def given(self) -> Tensor | None:
        """`known`, or None where no h is known."""
        return self.known if bool((self.known >= 0).any()) else None

    def change_C(self, C: float, tol: float) -> None:
        """Continue with another C, with tol = C·ε."""
        self.C = C

    def mean(self, values: Tensor) -> float:
        """Over the samples of all ranks."""
        return float(distributed.mean(self.candidates, values))

    def measures(self, values: Tensor | None = None) -> dict[str, float]:
        """The columns `loss`, `error` and `entropy` of the history; (y, h) is predicted by the scores, or by other values (T, K)."""
        return measures(self.loss, self.p, *(self.predicted() if values is None else best(self.candidates, values)))

    def predicted(self) -> tuple[Tensor, Tensor]:
        """The class (n,) and the packed row (n,) that the current w predicts for each sample (3)."""
        if self._predicted is None or self._predicted[0] is not self.point:
            self._predicted = self.point, best(self.candidates, self.point.scores)
        return self._predicted[1]

    def state(self) -> dict[str, Any]:
        """Tensors and numbers from which `load_state` continues as if never interrupted."""
        raise NotImplementedError

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        raise NotImplementedError


class BlockTraining(Training):
    """w by `cccp`, the w block, from the first h* `start`."""

    def __init__(self, learner: LatentLearner, samples: Checked):
        super().__init__(learner, samples)
        joint = learner.joint_.precise() if learner.tol < FINE else learner.joint_
        self.hinge = StructuredHinge(self.candidates, self.y, joint, learner.C, self.known, learner.memory_budget)
        self.start = learner.start_truth(samples, self.start)
        latents = ImputedLatents(self.hinge, self.start)
        self.cccp = latent_block(self.hinge, learner.solver, learner.cccp, learner.C * learner.tol, latents, learner.seed_)
        self.p = self._start = self.start.to(self.p)
        self.extra_passes = 0  # of the θ block
        self._expected: tuple[Tensor, Tensor] | None = None  # of which posterior, and what

    def change_C(self, C: float, tol: float) -> None:
        super().change_C(C, tol)
        self.cccp.change_C(C, tol)

    @property
    def point(self) -> Point:  # type: ignore[override]
        return self.cccp.point

    @property
    def passes(self) -> float:  # type: ignore[override]
        return self.hinge.passes + self.extra_passes

    def expected_loss(self, p: Tensor | None = None) -> Tensor:
        """(T, K): Δ_i(y, h; θ) under the current posterior, or another one (T,)."""
        p = self.p if p is None else p
        if self.loss.loss.of_label:  # nor does its expectation depend on h, to the last digit: every P_θ leads to the same end
            p = self._start
        if self._expected is None or self._expected[0] is not p:
            self._expected = p, self.loss.expected_loss(p)
        return self._expected[1]

    def delta(self, rows: Tensor) -> Tensor:
        """(T,): the posterior that puts all mass on packed rows (n,)."""
        return torch.zeros_like(self.p).index_fill(0, rows, 1.0)

    def imputed(self) -> Tensor:
        """(n,) h* as packed rows, by the current w."""
        return self.hinge.impute(self.point.scores)

    def objective(self, beta: float = 0.0, theta_norm: float | Tensor = 0.0) -> Objective:
        """(11) by its terms, under the current w and posterior."""
        xi = slack(self.candidates, self.point.scores, self.expected_loss(), self.y, self.known)
        w_norm = half_squares([self.point.w])
        means = (distributed.mean(self.candidates, values) for values in (xi, self.loss.diversity(self.p)))
        terms = torch.stack([w_norm, torch.as_tensor(theta_norm).to(w_norm), *means])
        names = "w_norm", "theta_norm", "slack", "diversity"
        return Objective(**dict(zip(names, terms.tolist(), strict=True)), C=self.C, beta=beta)  # one wait for all of them

    def state(self) -> dict[str, Any]:
        p = distributed.gather(self.candidates, self.p, "candidates")
        return {"cccp": self.cccp.state(), "p": p, "extra_passes": self.extra_passes}

    def load_state(self, state: dict[str, Any]) -> None:
        self.cccp.load_state(state["cccp"])
        self.p, self.extra_passes = distributed.own(self.candidates, state["p"].to(self.p), "candidates"), state["extra_passes"]
