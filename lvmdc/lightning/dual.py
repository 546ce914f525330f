"""Block coordinate descent by mini-batches: dual steps on a linear w while θ is held, then θ for that w."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lvmdc.distributions import LinearPrediction, Prediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.convergence import BlockConvergence
from lvmdc.lightning.dual_steps import STEPS, DualSteps, held_posterior
from lvmdc.lightning.minibatch import MiniBatchModule
from lvmdc.lightning.optimizers import Steps, steps
from lvmdc.objective import Objective
from lvmdc.solvers.lbfgs import log_linear_lbfgs


class DualModule(MiniBatchModule):
    """Learns (11) in the blocks of the exact solver, by mini-batches.

    A linear w steps in the dual of (14), without a rate: see `DualSteps`. h* waits as it does in the exact solver, as `method.cccp` says,
    and the gap of (14) is proven: see `BlockConvergence`. A log-linear θ is solved whenever w is, by passes over the whole set: it needs
    only scores, (T, K) numbers as α has, beside the features, and like w no rate. θ sees the averaged w; the average starts again with
    every w block, and with h*.

    Args:
        learner: DISC with a log-linear or uniform P_θ, LSVM or Supervised.
        average: see `MiniBatchModule`.
    """

    convergence: BlockConvergence
    dual: DualSteps | None = None  # from `setup` for training on

    def __init__(self, learner: LatentLearner, config: dict[str, Any] | None = None, average: float | None = 8.0):
        super().__init__(learner, config, BlockConvergence(learner.C * learner.tol, learner.cccp), average=average)
        if learner.temperature is not None:
            name = type(learner).__name__
            raise ValueError(f"dual steps are for a P_w that is a delta, but that of {name} is a softmax; use module=soft")
        if isinstance(learner.conditional, nn.Module):
            raise ValueError("module=dual solves a log-linear θ, but conditional is a network; use module=alternating")
        self.check_no_outer_iterations()
        if learner.cccp == "self_paced":
            raise ValueError("dual steps go by cccp=exact, inexact or eager, but it is 'self_paced'; use module=exact")

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            before, self.dual = self.dual, DualSteps(self.samples, self.learner.joint_, self.learner.C)
            if before is not None:  # a second `fit` continues
                self.dual.load(before.state())

    def make_optimizers(self) -> dict[str, Steps]:
        return {"p_w": steps(torch.optim.SGD(self.p_w.parameters(), lr=0.0))}  # w moves by itself; Lightning counts steps by it

    def on_fit_start(self) -> None:
        super().on_fit_start()
        self._steps.to(self.samples)

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """Steps on w in the dual of (14), θ and h* held. `batch` (m,) indexes the training samples."""
        samples = self._steps.batch(batch)
        p = held_posterior(samples, self.weights.conditional())  # (T,): P_θ(h | x_i, y_i) (5)
        self._steps.advance(samples, self._linear, samples.loss.expected_loss(p))
        self.step_optimizers()

    def epoch_results(self) -> tuple[Objective, dict[str, float], int]:
        """Move h* if it is time to, and solve θ once w is."""
        rule, p_w, p_theta = self.convergence, self.weights.prediction(), self.weights.conditional()
        one_pass = 1 if p_theta is None else 2  # of both distributions
        passes = STEPS + 3 * one_pass - 1
        objective, measures = self.measure_objective()
        bounds, rows = self._steps.bounds(p_w, p_theta)
        if rule.h_moves(bounds, _w_value(objective)) and self._steps.move(rows, self._linear):
            self.weights.restart("p_w")
        if rule.proven and self.weights.learns_theta:
            gained, more = self._solve_theta(p_w, rule.tolerance(value=objective.value))
            objective, measures = self.measure_objective()
            rule.theta_solved(gained, _w_value(objective), objective.value)
            self.weights.restart("p_w")
            passes += more + one_pass
        elif rule.proven:
            rule.converged = True
        return objective, measures | {"gap": bounds.gap}, passes

    def _solve_theta(self, p_w: Prediction, tol: float) -> tuple[float, int]:
        """Minimise (15) or (16) over θ for this P_w; what it gained, and how many passes it took."""
        learner, whole = self.learner, self.samples.whole()
        assert self.p_theta.linear is not None
        with torch.no_grad():
            scores = p_w.scores(whole.candidates)
        problem = learner.theta_problem(self.p_theta, whole.loss, scores, whole.known, learner.C)
        gained = log_linear_lbfgs(problem, self.p_theta.linear, tol)
        self.weights.restart("p_theta")
        self.weights.update("p_theta")  # a solution is not averaged with what came before
        return gained, 1 + problem.evaluations

    @property
    def _steps(self) -> DualSteps:
        assert self.dual is not None
        return self.dual

    @property
    def _linear(self) -> LinearPrediction:
        assert isinstance(self.p_w, LinearPrediction)
        return self.p_w

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        return super().learned() | ({} if self.dual is None else {"dual": self.dual.state()})

    def load_learned(self, learned: dict[str, Any]) -> None:
        super().load_learned(learned)
        if self.dual is not None:
            self.dual.load(learned["dual"])


def _w_value(objective: Objective) -> float:
    """(13)."""
    return objective.w_norm + objective.C * objective.slack
