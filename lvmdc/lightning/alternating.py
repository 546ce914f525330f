"""The paper under Lightning: each mini-batch gives a structured-hinge step on w and a subgradient step on θ."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lvmdc.inference import best
from lvmdc.learners import LatentLearner
from lvmdc.lightning import optimizers
from lvmdc.lightning.batches import Batch
from lvmdc.lightning.convergence import Plateau
from lvmdc.lightning.minibatch import MiniBatchModule
from lvmdc.lightning.networks import Network
from lvmdc.lightning.optimizers import OptimizerFactory, SchedulerFactory, Steps
from lvmdc.objective import half_squares
from lvmdc.solvers.soft import SoftProblem


class AlternatingModule(MiniBatchModule):
    """Learns (11), ½‖w‖² + J/2 ‖θ‖² + C/n Σ_i (ξ_i(w, θ) − β H_i(θ)), by manual optimisation; see `training_step`.

    P_w and P_θ may be linear or any `nn.Module`, and either may have any torch optimizer. Without θ (LSVM, Supervised), P_θ has all its
    mass on h*_i = argmax_h w·Ψ(x_i, y_i, h), or on the known h. By default a linear w takes subgradient steps of rate 1/(t + R√C), a
    log-linear θ steps of Adam; `lvmdc.lightning.optimizers` says why.

    Args:
        learner: DISC, LSVM or Supervised, with its loss and hyperparameters.
        optimizer_w: makes the optimizer of w from its parameters; likewise `optimizer_theta`.
        scheduler: makes the scheduler of both optimizers' rates, which steps every epoch.
        warmup_epochs: how long h* is held at the learner's `init`, as in the first round of CCCP, before it follows w; θ waits as long.
        patience: over how many epochs the objective is averaged to see whether it still changes; see `Plateau`.

    `prediction`, `conditional` and `average` are those of `MiniBatchModule`.
    """

    def __init__(
        self,
        learner: LatentLearner,
        config: dict[str, Any] | None = None,
        optimizer_w: OptimizerFactory | None = None,
        optimizer_theta: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        prediction: Network | None = None,
        conditional: Network | None = None,
        warmup_epochs: int = 1,
        patience: int = 5,
        average: float | None = 8.0,
    ):
        if warmup_epochs < 0 or patience < 1:
            raise ValueError(f"warmup_epochs must be at least 0 and patience at least 1, but they are {warmup_epochs} and {patience}")
        rule = Plateau(learner.C * learner.tol, patience, warmup_epochs)
        super().__init__(learner, config, rule, prediction, conditional, average)
        self.check_learner()
        self.optimizer_w, self.optimizer_theta, self.scheduler, self.warmup_epochs = optimizer_w, optimizer_theta, scheduler, warmup_epochs

    def check_learner(self) -> None:
        """Refuse a learner whose objective `training_step` is not."""
        if self.learner.temperature is not None:
            name = type(self.learner).__name__
            raise ValueError(f"{type(self).__name__} learns a P_w that is a delta, but that of {name} is a softmax; use module=soft")
        self.check_no_outer_iterations()

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """A structured-hinge step on w, θ held, and a subgradient step on θ, w held. `batch` (m,) indexes the training samples."""
        samples, learner = self.take(batch), self.learner
        x, loss, C = samples.candidates, samples.loss, learner.C * samples.share  # the share of this rank, 1 for one process

        scores = self.p_w.scores(x)  # (T, K): w·Ψ(x_i, y, h)
        h_star = self.h_star(samples, scores)  # (T,): all mass on argmax_h w·Ψ(x_i, y_i, h)
        p = samples.posterior(self.p_theta) if self.has_theta else h_star  # (T,): P_θ(h | x_i, y_i) (5)

        # w, θ held: ½‖w‖² + C/n Σ_i ξ_i (13), the structured hinge under the expected loss of P_θ.
        expected_loss = loss.expected_loss(p.detach())  # (T, K): Δ_i(y, h; θ) (7)
        xi = samples.slack(scores, expected_loss, h_star)  # (m,): max_{y,h} [w·Ψ + Δ_i(y, h; θ)] − w·Ψ(x_i, y_i, h*_i) (9)
        objective = self.w_norm(self.p_w) + C * xi.double().mean()

        # θ, w held: J/2 ‖θ‖² + C/n Σ_i (H_i(w, θ) − β H_i(θ)) (15), agreement minus β times diversity.
        if self.weights.learns_theta:
            agreement = loss.expected_at(p, *best(x, scores))  # (m,): H_i(w, θ) = Δ_i(y_i(w), h_i(w); θ) (8)
            if learner.theta_bound == "slack":
                agreement = samples.slack(scores.detach(), loss.expected_loss(p), h_star)  # (m,): its bound ξ_i(w, θ), as in (16)
            risk = agreement - learner.beta * loss.diversity(p)
            objective = objective + learner.J * half_squares(self.p_theta) + C * risk.double().mean()

        self.zero_grad()
        self.manual_backward(objective)  # no term has a derivative in both w and θ
        self.step_optimizers()

    def take(self, index: Tensor) -> Batch:
        """The samples `index` (m,), with their features."""
        return self.samples.batch(index)

    def h_star(self, samples: Batch, scores: Tensor) -> Tensor:
        """(T,): all mass on h*_i = argmax_h w·Ψ(x_i, y_i, h); where h* is held, the learner's `init`, since every h ties at w = 0."""
        return samples.start.to(scores) if self.h_held else samples.impute(scores)

    @property
    def h_held(self) -> bool:
        """Whether h* is held in this epoch."""
        return self.current_epoch < self.warmup_epochs

    def moving(self) -> set[str]:
        return super().moving() - ({"p_theta"} if self.current_epoch < self.warmup_epochs else set())

    # ---- optimizers ----------------------------------------------------------------------------------------------

    def make_optimizers(self) -> dict[str, Steps]:
        w = list(self.p_w.parameters())
        found = {"p_w": optimizers.chosen(w, self.default_for_w(w), self.optimizer_w, self.scheduler)}
        if self.weights.learns_theta:
            theta = list(self.p_theta.parameters())
            found["p_theta"] = optimizers.chosen(theta, self.default_for_theta(theta), self.optimizer_theta, self.scheduler)
        return found

    def default_for_w(self, w: list[nn.Parameter]) -> Steps:
        """The optimizer of w where the user gives none."""
        if not self.weights.linear_w:
            return optimizers.for_network(w)
        return optimizers.for_linear_w(w, self.samples.candidates, self.learner.C)

    def default_for_theta(self, theta: list[nn.Parameter]) -> Steps:
        """The optimizer of θ where the user gives none."""
        if not self.weights.linear_theta:
            return optimizers.for_network(theta)
        return optimizers.for_log_linear(theta, self.samples.candidates.for_phi())


class SoftModule(AlternatingModule):
    """Learns ½‖w‖² + J/2 ‖θ‖² + C/n Σ_i D_i (2) for a P_w that is a softmax (`SoftDISC`): each mini-batch gives one gradient step on w
    and θ. The options are those of `AlternatingModule`."""

    def check_learner(self) -> None:
        if self.learner.temperature is None:
            raise ValueError(f"SoftModule is for SoftDISC, but the learner is {type(self.learner).__name__}; use module=alternating")

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """A step on w and θ together. While h* is held, P_θ is the start, and θ waits."""
        samples = self.take(batch)
        objective = self.problem(samples, samples.start.to(next(self.p_w.parameters())) if self.h_held else None).value()
        self.zero_grad()
        self.manual_backward(objective)
        self.step_optimizers()

    def problem(self, samples: Batch, start: Tensor | None = None) -> SoftProblem:
        """The objective on a batch; `start` (T,) replaces P_θ."""
        one, C = self.learner, self.learner.C * samples.share
        assert one.temperature is not None  # see `check_learner`
        return SoftProblem(self.p_w, self.p_theta, samples.loss, samples.known, C, one.J, one.beta, one.temperature, start)

    def slacks(self, samples: Batch, scores: Tensor, p: Tensor) -> Tensor:
        """(n,): H(P_θ, P_w) − (1−β) H(P_w, P_w), in place of ξ_i."""
        return self.problem(samples).against(scores, p)

    def default_for_w(self, w: list[nn.Parameter]) -> Steps:
        if not self.weights.linear_w:
            return optimizers.for_network(w)
        assert self.learner.temperature is not None
        return optimizers.for_log_linear(w, self.samples.candidates, self.learner.temperature)
