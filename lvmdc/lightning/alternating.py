"""The paper under Lightning: for every mini-batch a structured-hinge step on w and a subgradient step on θ."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lvmdc.inference import best
from lvmdc.learners import DISC, LatentLearner, SoftDISC
from lvmdc.lightning.averaged import Pair
from lvmdc.lightning.batches import Batch, batch_objective
from lvmdc.lightning.stochastic import StochasticModule
from lvmdc.objective import slack
from lvmdc.solvers.soft import half_squares
from lvmdc.solvers.theta_block import with_known


class AlternatingModule(StochasticModule):
    """Learns (11), ½‖w‖² + J/2 ‖θ‖² + C/n Σ_i (ξ_i(w, θ) − β H_i(θ)), by manual optimisation; see `training_step`.

    P_w and P_θ may be any `nn.Module` from features (T, d) to scores (T, K), and either may have any torch optimizer. Without θ (LSVM,
    Supervised), P_θ has all its mass on h*_i = argmax_h w·Ψ(x_i, y_i, h), or on the known h.

    Args:
        learner: DISC, LSVM or Supervised, with its loss and hyperparameters.
        options: `optimizer_w`, `optimizer_theta`, `scheduler`, `prediction`, `conditional`, `warmup_epochs`, `patience` and `average`
            of `StochasticModule`.
    """

    def __init__(self, learner: LatentLearner, config: dict[str, Any] | None = None, **options: Any):
        if isinstance(learner, SoftDISC):
            raise ValueError("AlternatingModule trains DISC, LSVM and Supervised, but the learner is SoftDISC; use StochasticModule")
        for name in ("dual", "norm"):
            if name in options:
                raise ValueError(f"{name}= is an option of StochasticModule, but this is AlternatingModule: leave it out")
        super().__init__(learner, config, dual=False, **options)

    def training_step(self, batch: Tensor, batch_idx: int) -> None:
        """One step on w and one on θ, both from where the two stand now. `batch` (m,) indexes the training samples."""
        if self.begin_step(batch_idx):
            return
        samples, learner = self.samples.batch(batch), self.learner
        pair, x, y, loss = self._trained(), samples.candidates, samples.y, samples.bound
        C = learner.C * samples.share  # the share of this rank in the batch, 1 for one process

        scores = pair.p_w.scores(x)  # (T, K): w·Ψ(x_i, y, h)
        p = self._latent(pair, samples, scores)  # (T,): P_θ(h | x_i, y_i) (5)

        # w, θ held: ½‖w‖² + C/n Σ_i ξ_i (13), the structured hinge under the expected loss of P_θ.
        expected = loss.expected_loss(p.detach())  # (T, K): Δ_i(y, h; θ) (7)
        xi = self._slack(pair, samples, scores, expected)  # (n,): max_{y,h} [w·Ψ + Δ_i(y, h; θ)] − max_h w·Ψ(x_i, y_i, h) (9)
        value = half_squares(pair.p_w) + C * xi.double().mean()

        # θ, w held: J/2 ‖θ‖² + C/n Σ_i (H_i(w, θ) − β H_i(θ)) (15), agreement minus β × diversity.
        if isinstance(learner, DISC) and pair.p_theta is not None and pair.theta:
            fixed = scores.detach()
            if learner.theta_bound == "prediction":
                agreement = loss.expected_at(p, *best(x, fixed))  # (n,): H_i(w, θ) (8), at the prediction (y_i(w), h_i(w))
            else:
                agreement = slack(x, fixed, loss.expected_loss(p), y, samples.known)  # (n,): ξ_i(w, θ), as in (16)
            each = agreement - learner.beta * loss.diversity(p)  # (n,)
            value = value + learner.J * half_squares(pair.p_theta) + C * each.double().mean()

        self.zero_grad()
        self.manual_backward(value)  # autograd; no term has a derivative in both w and θ
        self.step_optimizers()
        self.end_step(pair)

    def _latent(self, pair: Pair, samples: Batch, scores: Tensor) -> Tensor:
        """(T,): P_θ(h | x_i, y_i), differentiable in θ; without θ, all mass on h*_i."""
        if pair.p_theta is None:
            return batch_objective(self.learner, pair.p_w, None).posterior(samples, scores.detach(), self._warm)
        return with_known(pair.p_theta.log_prob(samples.candidates, samples.y).exp(), samples.bound, samples.known)

    def _slack(self, pair: Pair, samples: Batch, scores: Tensor, expected: Tensor) -> Tensor:
        """(n,): ξ_i (9); in the first epochs h*_i is held at the learner's `init`, since every h ties at w = 0."""
        if self._warm:
            return batch_objective(self.learner, pair.p_w, pair.p_theta).held_slacks(samples, scores, expected)
        return slack(samples.candidates, scores, expected, samples.y, samples.known)
