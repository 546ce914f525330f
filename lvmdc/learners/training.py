"""The working parts of one training: its samples, its blocks, its posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.distributions import Conditional, score_dtype
from lvmdc.inference import best
from lvmdc.losses.bound import BoundLoss
from lvmdc.objective import Objective, half_square, slack
from lvmdc.solvers.choice import latent_block
from lvmdc.solvers.hinge import Point, StructuredHinge
from lvmdc.solvers.truth import Truth

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
        self.bound = BoundLoss(learner.loss_, candidates, y, learner.n_classes_, learner.memory_budget)
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
