"""DISC with a prediction that is a distribution too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lvmdc.candidates import Candidates
from lvmdc.distributions import Conditional, LinearPrediction, score_dtype
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import best
from lvmdc.learners import checks
from lvmdc.learners.disc import DISC
from lvmdc.losses import Loss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import Objective, half_square
from lvmdc.solvers.initial import Init
from lvmdc.solvers.lbfgs import lbfgs
from lvmdc.solvers.soft import SoftProblem
from lvmdc.solvers.w_block import Point

ROUNDS = 5  # of L-BFGS in one outer iteration


@dataclass
class JointTraining:
    """The working parts of one training: its samples, where w stands, and the current P_θ as probabilities `p` (T,)."""

    candidates: Candidates
    y: Tensor
    known: Tensor
    bound: ExpectedLoss
    start: Tensor
    point: Point
    p: Tensor
    passes: int = 0

    @property
    def belief(self) -> Tensor:
        """(T,): about h at the start."""
        return self.start.to(self.p)

    def change_C(self, C: float, tol: float) -> None:
        """Nothing here depends on C."""


class SoftDISC(DISC):
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i [H(P_θ, P_w) − β H(P_θ, P_θ) − (1−β) H(P_w, P_w)] over w and θ together, where
    P_w(y, h | x) ∝ exp(w·Ψ(x, y, h) / T) is a distribution over all (y, h), and its own diversity counts.

    The objective is the dissimilarity coefficient (2) itself, not a bound of it, and smooth: an outer iteration is some tens of L-BFGS
    iterations, the first with P_θ held at the start that `init` names. With mini-batches, `SoftModule` learns the same. As the
    temperature T goes to zero P_w becomes the delta of the paper (4). (y, h) is predicted by the argmax in any case. In the
    history `slack` is the mean of H(P_θ, P_w) − (1−β) H(P_w, P_w), which stands in its place.

    Args:
        beta: β of the dissimilarity coefficient (2), in (0, 1). A small one, as the paper has, rewards a P_w that knows nothing, since
            1 − β is the weight of its own diversity.
        temperature: T. As ½‖w‖² keeps scores small, a T well below 1 makes P_w sharp at less cost.

    The others are those of `DISC`.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = SoftDISC(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    over_ranks = False
    _training: JointTraining

    def __init__(
        self,
        loss: Loss | None = None,
        C: float = 1.0,
        J: float = 0.1,
        beta: float = 0.5,
        temperature: float = 0.1,
        tol: float = 1e-3,
        init: Init = "likelihood",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 50,
        conditional: str | nn.Module = "log_linear",
        n_classes: int | None = None,
        joint: JointFeatureMap | None = None,
        joint_phi: JointFeatureMap | None = None,
        memory_budget: int | None = None,
        verbose: bool = False,
    ):
        super().__init__(
            loss, C, J, beta, tol, init, seed, n_init, max_iter, conditional=conditional, n_classes=n_classes, joint=joint,
            joint_phi=joint_phi, memory_budget=memory_budget, verbose=verbose,
        )  # fmt: skip
        self.temperature = temperature

    def check_parameters(self) -> None:
        super().check_parameters()
        checks.check_positive("temperature", self.temperature)

    # ---- learning ------------------------------------------------------------------------------------------------

    def _make_training(self, samples: checks.Checked) -> JointTraining:
        candidates, y, known = samples.candidates, samples.y, samples.known
        bound = ExpectedLoss(self.loss_, candidates, y, self.n_classes_, self.memory_budget)
        start = self.start_posterior(samples)
        w = torch.zeros(self.joint_.size(candidates), dtype=torch.float64, device=candidates.device)
        point = Point(w, self.joint_.scores_at_origin(candidates))
        return JointTraining(candidates, y, known, bound, start, point, start.to(score_dtype(candidates)))

    def _step(self) -> dict[str, float]:
        t = self._training
        first = t.passes == 0
        p_w = LinearPrediction(t.point.w, self.joint_)
        start = t.start.to(score_dtype(t.candidates)) if first else None
        problem = SoftProblem(p_w, self.model_, t.bound, t.known, self.C, self.J, self.beta, self.temperature, start)
        gained = lbfgs(problem, self.C * self.tol, ROUNDS)
        w = p_w.w.detach()
        t.point = Point(w, self.joint_.scores(t.candidates, w))
        t.passes += 2 * problem.evaluations
        if not first:
            self._refresh()
        self.converged_ = not first and gained <= self.C * self.tol
        return {**self._objective().terms(), **self._measures(), "decrease": gained, "gap": 0.0}

    def _follow_C(self, growth: float) -> None:
        """θ is learned with w."""

    def _objective(self) -> Objective:
        t = self._training
        problem = SoftProblem(nn.Module(), self.model_, t.bound, t.known, self.C, self.J, self.beta, self.temperature)  # type: ignore[arg-type]
        with torch.no_grad():
            against = problem.against(t.point.scores, t.p).double().mean()
            diversity = t.bound.diversity(t.p).double().mean()
        return Objective(half_square(t.point.w), self._theta_norm(), float(against), float(diversity), self.C, self.beta)

    def _measures(self) -> dict[str, float]:
        t = self._training
        y_hat, rows = best(t.candidates, t.point.scores)
        return {
            "loss": float(t.bound.expected_at(t.p, y_hat, rows).double().mean()),
            "error": float((y_hat != t.y).double().mean()),
            "entropy": float(Conditional(t.candidates, t.y, t.p).entropy().double().mean()),
        }

    # ---- keeping and resuming ------------------------------------------------------------------------------------

    def _training_state(self) -> dict[str, Any]:
        t = self._training
        return {"w": t.point.w, "p": t.p, "passes": t.passes, "samples": len(t.candidates), "seed": self.seed_}

    def _load_training(self, state: dict[str, Any]) -> None:
        t = self._training
        if state["samples"] != len(t.candidates):
            raise ValueError(f"the state was learned from {state['samples']} samples, but there are {len(t.candidates)}")
        w = state["w"].to(t.point.w)
        t.point, t.p = Point(w, self.joint_.scores(t.candidates, w)), state["p"].to(t.p)
        t.passes, self.seed_ = state["passes"], state["seed"]
