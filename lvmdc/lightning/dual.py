"""Block coordinate descent by mini-batches: dual steps on a linear w while θ is held, then θ while w is held."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lvmdc.distributions import LinearPrediction
from lvmdc.learners import DISC, LatentLearner, SoftDISC
from lvmdc.lightning import optimizers
from lvmdc.lightning.batches import Batch
from lvmdc.lightning.convergence import BlockConvergence
from lvmdc.lightning.dual_steps import STEPS, DualSteps, held_posterior
from lvmdc.lightning.minibatch import MiniBatchModule
from lvmdc.lightning.networks import Network
from lvmdc.lightning.optimizers import OptimizerFactory, SchedulerFactory, Steps
from lvmdc.objective import Objective
from lvmdc.solvers.log_linear import log_linear_lbfgs
from lvmdc.solvers.theta_block import PosteriorProblem


class DualModule(MiniBatchModule):
    """Learns (11) in the blocks of the exact solver, by mini-batches.

    A linear w steps in the dual of (14), without a rate: see `DualSteps`. h* waits as it does in the exact solver, as `method.cccp` says,
    and the gap of (14) is proven: see `BlockConvergence`. A log-linear θ is solved whenever w is, by passes over the whole set: it needs
    only scores, (T, K) numbers as α has, beside the features, and like w no rate. A network for P_θ, or a θ with its own optimizer, takes
    steps on batches. Each block sees the average of the other, which starts again with every block, and with h*.

    Args:
        learner: DISC, LSVM or Supervised, with its loss and hyperparameters.
        optimizer_theta: makes an optimizer of θ from its parameters, which then takes steps.
        scheduler: makes the scheduler of its rate, which steps every epoch.

    `conditional` and `average` are those of `MiniBatchModule`.
    """

    convergence: BlockConvergence
    dual: DualSteps | None = None  # from `setup` for training on

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        optimizer_theta: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        conditional: Network | None = None,
        average: float | None = 8.0,
    ):
        rule = BlockConvergence(learner.C * learner.tol, learner.cccp)
        super().__init__(learner, config, rule, conditional=conditional, average=average)
        if isinstance(learner, SoftDISC):
            raise ValueError("dual steps are for a P_w that is a delta, but that of SoftDISC is a softmax; use module=soft")
        self.check_no_outer_iterations()
        if learner.cccp == "self_paced":
            raise ValueError("dual steps go by cccp=strict, full or eager, but it is 'self_paced'; use module=exact")
        given = conditional or optimizer_theta  # an empty config group is none
        self.theta_steps = isinstance(learner, DISC) and bool(given or learner.conditional not in ("log_linear", "uniform"))
        if scheduler is not None and not self.theta_steps:
            raise ValueError("dual steps have no rate, but scheduler would change one; use module=alternating")
        self.optimizer_theta, self.scheduler = optimizer_theta, scheduler

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            before, self.dual = self.dual, DualSteps(self.samples, self.learner.joint_, self.learner.C)
            if before is not None:  # a second `fit` continues
                self.dual.load(before.state())

    def make_optimizers(self) -> dict[str, Steps]:
        found = {"p_w": optimizers.steps(torch.optim.SGD(self.p_w.parameters(), lr=0.0))}  # w moves by itself; Lightning counts steps by it
        if self.theta_steps and self.weights.learns_theta:
            theta, phi = list(self.p_theta.parameters()), self.samples.candidates.for_phi()
            default = optimizers.for_log_linear(theta, phi) if self.weights.linear_theta else optimizers.for_network(theta)
            found["p_theta"] = optimizers.chosen(theta, default, self.optimizer_theta, self.scheduler)
        return found

    def on_fit_start(self) -> None:
        super().on_fit_start()
        self._steps.to(self.samples)

    def moving(self) -> set[str]:
        return {"p_theta" if self.convergence.in_theta_block else "p_w"}

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """Steps on w under the averaged P_θ, or on θ under the averaged P_w. `batch` (m,) indexes the training samples."""
        samples = self._steps.batch(batch)
        if self.convergence.in_theta_block:
            p_w = self.weights.prediction()
            problem = self.theta_problem(samples, p_w.scores(samples.candidates))
            for _ in range(STEPS):
                self.zero_grad()
                self.manual_backward(problem.value())  # (15) or (16)
                self.step_optimizers()
        else:
            p = held_posterior(samples, self.weights.conditional())
            self._steps.advance(samples, self._linear, samples.loss.expected_loss(p))  # in the dual of (14)
            self.step_optimizers()

    def theta_problem(self, samples: Batch, scores: Tensor) -> PosteriorProblem:
        """What θ minimises where w has the scores (T, K)."""
        learner = self.learner
        assert isinstance(learner, DISC)
        weights = (learner.J, learner.C * samples.share, learner.beta)
        return PosteriorProblem(self.p_theta, samples.loss, scores, *weights, learner.theta_bound, samples.known)

    # ---- the end of an epoch -------------------------------------------------------------------------------------

    def epoch_results(self) -> tuple[Objective, dict[str, float], int]:
        """Move h* if it is time to, and pass from one block to the other."""
        rule, p_w, p_theta = self.convergence, self.weights.prediction(), self.weights.conditional()
        one_pass = 1 if p_theta is None else 2  # of both distributions
        objective, measures = self.measure_objective()
        if rule.in_theta_block:
            gap, gained = rule.rows[-1]["gap"], rule.theta_gained(self._theta_value(objective, measures), objective.value)
            if gained is not None:
                self._begin_w_block(gained, objective)
            return objective, measures | {"gap": gap}, 2 * STEPS + one_pass
        passes = STEPS + 3 * one_pass - 1
        bounds, rows = self._steps.bounds(p_w, p_theta)
        if rule.h_moves(bounds, _w_value(objective)) and self._steps.move(rows, self._linear):
            self.weights.restart("p_w")
        if rule.proven and self.theta_steps:
            rule.began = [self._theta_value(objective, measures)]
            self.weights.restart("p_theta")
        elif rule.proven and self.weights.learns_theta:
            gained, more = self._solve_theta(p_w, rule.tolerance(value=objective.value))
            objective, measures = self.measure_objective()
            self._begin_w_block(gained, objective)
            passes += more + one_pass
        elif rule.proven:
            rule.converged = True
        return objective, measures | {"gap": bounds.gap}, passes

    def _begin_w_block(self, gained: float, objective: Objective) -> None:
        self.convergence.end_theta_block(gained, _w_value(objective), objective.value)
        self.weights.restart("p_w")

    def _solve_theta(self, p_w: Any, tol: float) -> tuple[float, int]:
        """Solve a log-linear θ for this P_w; what it gained of its own objective, and how many passes it took."""
        assert self.p_theta.linear is not None
        whole = self.samples.whole()
        with torch.no_grad():
            scores = p_w.scores(whole.candidates)
        problem = self.theta_problem(whole, scores)
        gained = log_linear_lbfgs(problem, self.p_theta.linear, tol)
        self.weights.restart("p_theta")
        self.weights.update("p_theta")  # a solution is not averaged with what came before
        return gained, 1 + problem.evaluations

    def _theta_value(self, objective: Objective, measures: dict[str, float]) -> float:
        """The terms of (11) that have θ in them, with the expected loss (8) for ξ_i if that is what θ minimises."""
        learner = self.learner
        assert isinstance(learner, DISC)
        agreement = measures["loss"] if learner.theta_bound == "prediction" else objective.slack
        return objective.theta_norm + learner.C * (agreement - learner.beta * objective.diversity)

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
