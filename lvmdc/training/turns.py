"""w and θ in turn: what each does with a batch, and what the end of an epoch changes."""

from __future__ import annotations

from torch import Tensor

from lvmdc.distributions import LinearPrediction
from lvmdc.learners import LatentLearner
from lvmdc.objective import Objective
from lvmdc.training.batch_objective import BatchObjective, batch_objective
from lvmdc.training.dual_steps import STEPS, DualSteps
from lvmdc.training.pair import Name, Pair
from lvmdc.training.rounds import DualEpochs


class Turns:
    """Block coordinate descent by mini-batches: w by dual steps while θ stands, then θ by its optimizer while w does.

    Each sees the average of the other, which begins anew with every turn, and with h*.

    Args:
        epochs: says whose turn it is.
    """

    def __init__(self, learner: LatentLearner, dual: DualSteps, epochs: DualEpochs):
        self.learner, self.dual, self.epochs = learner, dual, epochs

    @property
    def of(self) -> Name:
        """Whose turn it is."""
        return "p_theta" if self.epochs.turn_of_theta else "p_w"

    @property
    def steps(self) -> int:
        """How many steps a batch gives its optimizer; those of w are taken at once."""
        return STEPS if self.of == "p_theta" else 1

    def passes(self, pair: Pair) -> int:
        """Over the features, in an epoch of this turn: to learn, to measure and, for w, to bound."""
        return 2 * STEPS + 2 if self.of == "p_theta" else STEPS + (2 if pair.p_theta is None else 5)

    def step(self, pair: Pair, index: Tensor) -> Tensor | None:
        """With the samples `index` (m,): what θ lowers, or None once w has moved."""
        batch = self.dual.batch(index)
        if self.of == "p_theta":
            p_w = pair.prediction()
            return batch_objective(self.learner, p_w, pair.p_theta).theta_value(batch, p_w.scores(batch.candidates))
        p_w = self._linear(pair)
        p = batch_objective(self.learner, p_w, pair.conditional()).held_posterior(batch)
        self.dual.advance(batch, p_w, batch.bound.expected_loss(p))
        return None

    def end_epoch(self, pair: Pair, measured: BatchObjective, objective: Objective, loss: float) -> float:
        """Move h* if it is time to, and pass the turn on; the gap that (14) had.

        Args:
            measured: the averages, which have this objective (11) and this mean expected loss (8).
        """
        had, w_value = self.of, objective.w_norm + objective.C * objective.slack
        if had == "p_theta":
            gap = self.epochs.rows[-1]["gap"]  # that of the last turn of w
        else:
            bounds, rows = self.dual.bounds(measured)
            gap = bounds.gap
            if self.epochs.ask(bounds, w_value) and self.dual.move(rows, self._linear(pair)):
                pair.restart("p_w")
        self.epochs.pass_on(w_value, measured.theta_terms(objective, loss), objective.value)
        if self.of != had:
            pair.restart(self.of)
        return gap

    def _linear(self, pair: Pair) -> LinearPrediction:
        assert isinstance(pair.p_w, LinearPrediction)
        return pair.p_w
