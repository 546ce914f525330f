"""w and θ in turn: what each does with a batch, and what the end of an epoch changes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lvmdc.distributions import LinearPrediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.averaged import Name, Pair
from lvmdc.lightning.batches import BatchObjective, batch_objective
from lvmdc.lightning.convergence import DualEpochs
from lvmdc.lightning.dual import STEPS, DualSteps
from lvmdc.objective import Objective
from lvmdc.solvers.log_linear import log_linear_lbfgs

ThetaTurn = Literal["solved", "steps"] | None


class Turns:
    """Block coordinate descent by mini-batches: w by dual steps while θ stands, then θ while w does.

    A log-linear θ is solved at once, as by the exact solver, by passes over the whole set: what it needs beside the features are scores,
    (T, K) numbers as α has, and like w it needs no rate. Any other has its optimizer take steps on batches. Each sees the average of the
    other, which begins anew with every turn, and with h*.

    Args:
        epochs: says whose turn it is.
        theta: how θ learns: `solved`, by `steps` of its optimizer, or None, not at all.
    """

    def __init__(self, learner: LatentLearner, dual: DualSteps, epochs: DualEpochs, theta: ThetaTurn):
        self.learner, self.dual, self.epochs, self.theta = learner, dual, epochs, theta
        self.passes = 0  # over the features, in this epoch

    @property
    def of(self) -> Name:
        """Whose turn it is."""
        return "p_theta" if self.epochs.turn_of_theta else "p_w"

    @property
    def steps(self) -> int:
        """How many steps a batch gives its optimizer; those of w are taken at once."""
        return STEPS if self.of == "p_theta" else 1

    def step(self, pair: Pair, index: Tensor) -> Tensor | None:
        """With the samples `index` (m,): what θ lowers, or None once w has moved."""
        batch = self.dual.batch(index)
        if self.of == "p_theta":
            p_w = pair.prediction()
            return batch_objective(self.learner, p_w, pair.p_theta).theta_problem(batch, p_w.scores(batch.candidates)).value()
        p_w = self._linear(pair)
        p = batch_objective(self.learner, p_w, pair.conditional()).held_posterior(batch)
        self.dual.advance(batch, p_w, batch.bound.expected_loss(p))
        return None

    def end_epoch(self, pair: Pair) -> tuple[Objective, dict[str, float]]:
        """Move h* if it is time to, and pass the turn on; (11) and the measures of where that leaves the averages."""
        self.passes = 2 * STEPS if self.of == "p_theta" else STEPS + (0 if pair.p_theta is None else 1)
        measured, objective, measures = self._measure(pair)
        if self.of == "p_theta":
            gap = self.epochs.rows[-1]["gap"]  # that of the last turn of w
            gained = self.epochs.add_theta(measured.theta_terms(objective, measures["loss"]), objective.value)
            if gained is not None:
                self.epochs.end_theta(gained, _w_terms(objective), objective.value)
                pair.restart("p_w")
            return objective, measures | {"gap": gap}
        gap = self._end_of_w(pair, measured, objective)
        if self.epochs.proven and self.theta == "solved":
            gained = self._solve_theta(pair, measured, self.epochs.tolerance_at(self.epochs.origin, objective.value))
            _, objective, measures = self._measure(pair)
            self.epochs.end_theta(gained, _w_terms(objective), objective.value)
            pair.restart("p_w")
        elif self.epochs.proven and self.theta == "steps":
            self.epochs.began = [measured.theta_terms(objective, measures["loss"])]
            pair.restart("p_theta")
        elif self.epochs.proven:
            self.epochs.converged = True
        return objective, measures | {"gap": gap}

    def _measure(self, pair: Pair) -> tuple[BatchObjective, Objective, dict[str, float]]:
        self.passes += 1 if pair.p_theta is None else 2
        measured = batch_objective(self.learner, pair.prediction(), pair.conditional())
        return measured, *measured.measure(self.dual.samples)

    def _end_of_w(self, pair: Pair, measured: BatchObjective, objective: Objective) -> float:
        """The gap that (14) had, whether or not h* then moved on."""
        self.passes += 1 if pair.p_theta is None else 2
        bounds, rows = self.dual.bounds(measured)
        if self.epochs.ask(bounds, _w_terms(objective)) and self.dual.move(rows, self._linear(pair)):
            pair.restart("p_w")
        return bounds.gap

    def _solve_theta(self, pair: Pair, measured: BatchObjective, tol: float) -> float:
        """θ for the averaged w; what it gained of its own objective."""
        assert pair.p_theta is not None
        assert pair.p_theta.linear is not None
        whole = self.dual.samples.whole()
        with torch.no_grad():
            scores = measured.p_w.scores(whole.candidates)
        problem = batch_objective(self.learner, measured.p_w, pair.p_theta).theta_problem(whole, scores)
        gained = log_linear_lbfgs(problem, pair.p_theta.linear, tol)
        self.passes += 1 + problem.evaluations
        pair.restart("p_theta")
        pair.average("p_theta")  # of one: what was solved is no step among others
        return gained

    def _linear(self, pair: Pair) -> LinearPrediction:
        assert isinstance(pair.p_w, LinearPrediction)
        return pair.p_w


def _w_terms(objective: Objective) -> float:
    """(13)."""
    return objective.w_norm + objective.C * objective.slack
