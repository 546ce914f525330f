"""The working parts of one training on chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lvmdc.chains.hinge import ChainHinge
from lvmdc.chains.rounds import chain_block
from lvmdc.chains.sequences import Chains
from lvmdc.chains.start import starting_states
from lvmdc.objective import Objective, half_square
from lvmdc.solvers.hinge import Point
from lvmdc.solvers.truth import Truth

if TYPE_CHECKING:
    from lvmdc.chains.learner import ChainLearner


class ChainTraining:
    """What a learner of chains works with between `begin` and the last `step`: the w block, and P_θ as node marginals `p` (n, m, S)."""

    def __init__(self, learner: ChainLearner, chains: Chains, y: Tensor, known: Tensor, given: Tensor | None):
        self.candidates, self.y, self.loss, self.C = chains, y, learner.loss_, learner.C
        seen = chains.window(learner.window)
        self.hinge = ChainHinge(seen, y, learner.map_, learner.n_classes_, learner.C, self.loss.class_cost, known)
        self.start = starting_states(learner.init, chains, learner.n_states, learner.seed_, given, known)
        truth = Truth(self.hinge, rows=self.hinge.number(self.start))
        self.cccp = chain_block(self.hinge, learner.cccp, learner.C * learner.tol, truth, learner.seed_)
        self.p = self.delta(self.start)
        self.entropy = torch.zeros(len(y), device=y.device)  # (n,) of the posterior, which is a delta at first
        self.extra_passes = 0

    @property
    def point(self) -> Point:
        return self.cccp.point

    @property
    def passes(self) -> float:
        """Passes over the sequences so far, of w and θ."""
        return self.hinge.passes + self.extra_passes

    def delta(self, h: Tensor) -> Tensor:
        """(n, m, S): the marginals of the posterior that puts all mass on labelings (n, m)."""
        chains = self.candidates
        one = torch.nn.functional.one_hot(h, self.hinge.map.n_states).to(torch.promote_types(chains.features.dtype, torch.float32))
        return one * chains.mask[..., None]

    def delta_at(self, truth: Truth) -> Tensor:
        """(n, m, S): the same on h*."""
        assert truth.rows is not None
        return self.delta(self.hinge.joint.h(truth.rows))

    def expected_loss(self, p: Tensor | None = None) -> Tensor:
        """(n, m, S): what the states of the sites add to Δ_i(y_i, h; θ) under the current posterior, or under p."""
        return self.loss.site_loss(self.p if p is None else p, self.candidates.counts)

    def objective(self, beta: float = 0.0, theta_norm: float = 0.0) -> Objective:
        """(11) by its terms, under the current w and posterior."""
        xi = self.hinge.slack(self.point.scores, self.expected_loss())
        diversity = self.loss.diversity(self.p, self.candidates.counts)
        slack, spread = float(xi.double().mean()), float(diversity.double().mean())
        return Objective(half_square(self.point.w), theta_norm, slack, spread, self.C, beta)

    def measures(self) -> dict[str, float]:
        """Columns of the history beside the objective: the expected loss of the prediction (8), class error, entropy of the posterior."""
        y, h = self.hinge.predict(self.point.w)
        expected = self.loss.expected(self.p, h, self.candidates.counts)
        return {
            "loss": float(torch.where(y == self.y, expected, self.loss.class_cost).double().mean()),
            "error": float((y != self.y).double().mean()),
            "entropy": float(self.entropy.double().mean()),
        }
