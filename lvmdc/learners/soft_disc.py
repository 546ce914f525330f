"""DISC with a prediction that is a distribution too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lvmdc.distributions import LinearPrediction
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.learners import checks
from lvmdc.learners.disc import DISC
from lvmdc.learners.state import Training
from lvmdc.losses import Loss
from lvmdc.objective import Objective, half_square
from lvmdc.solvers.initial import Init
from lvmdc.solvers.lbfgs import lbfgs
from lvmdc.solvers.soft import SoftProblem
from lvmdc.solvers.w_block import Point

ROUNDS = 5  # of ten iterations of L-BFGS in one outer iteration, so that a killed training loses little


class JointTraining(Training):
    """w and θ are learned together; `p` is the current P_θ."""

    def __init__(self, learner: SoftDISC, samples: checks.Checked):
        super().__init__(learner, samples)
        self.joint, self.passes = learner.joint_, 0
        w = torch.zeros(self.joint.size(self.candidates), dtype=torch.float64, device=self.candidates.device)
        self.point = Point(w, self.joint.scores_at_origin(self.candidates))

    def go(self, w: Tensor) -> None:
        """Move w."""
        self.point = Point(w, self.joint.scores(self.candidates, w))

    def state(self) -> dict[str, Any]:
        return {"w": self.point.w, "p": self.p, "passes": self.passes}

    def load_state(self, state: dict[str, Any]) -> None:
        self.go(state["w"].to(self.point.w))
        self.p, self.passes = state["p"].to(self.p), state["passes"]


class SoftDISC(DISC):
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i [H(P_θ, P_w) − β H(P_θ, P_θ) − (1−β) H(P_w, P_w)] over w and θ together, where
    P_w(y, h | x) ∝ exp(w·Ψ(x, y, h) / T) is a distribution over all (y, h), and its own diversity counts.

    The objective is the dissimilarity coefficient (2) itself, not a bound of it, and smooth: an outer iteration is some tens of L-BFGS
    iterations, the first with P_θ held at the start that `init` names. With mini-batches, `SoftModule` learns the same. As the
    temperature T goes to zero P_w becomes the delta of the paper (4). (y, h) is predicted by the argmax in any case. In the
    history `slack` is the mean of H(P_θ, P_w) − (1−β) H(P_w, P_w), which replaces it.

    Args (the others are those of `DISC`):
        beta: β of the dissimilarity coefficient (2), in (0, 1). A small one, as the paper has, rewards a P_w that knows nothing, since
            1 − β is the weight of its own diversity.
        temperature: T. As ½‖w‖² keeps scores small, a T well below 1 makes P_w sharp at less cost.

    >>> from lvmdc import Candidates
    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = SoftDISC(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    supports_ranks = False
    temperature: float
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

    def _make_training(self, samples: checks.Checked) -> JointTraining:
        return JointTraining(self, samples)

    def _problem(self, p_w: LinearPrediction, start: Tensor | None = None) -> SoftProblem:
        t = self._training
        return SoftProblem(p_w, self.model_, t.loss, t.known, self.C, self.J, self.beta, self.temperature, start)

    def _step(self) -> dict[str, float]:
        t = self._training
        first = t.passes == 0
        p_w = LinearPrediction(t.point.w, self.joint_)
        problem = self._problem(p_w, t.belief if first else None)
        gained = lbfgs(problem, self.C * self.tol, ROUNDS)
        t.go(p_w.w.detach())
        t.passes += 2 * problem.evaluations
        if not first:
            self._refresh()
        self.converged_ = not first and gained <= self.C * self.tol
        return {**self._objective().terms(), **t.measures(), "decrease": gained, "gap": 0.0}

    def _follow_C(self, growth: float) -> None:
        """θ is learned with w."""

    def _objective(self) -> Objective:
        t = self._training
        with torch.no_grad():
            against = self._problem(LinearPrediction(t.point.w, self.joint_)).against(t.point.scores, t.p)
            diversity = t.loss.diversity(t.p)
        return Objective(half_square(t.point.w), self._theta_norm(), t.mean(against), t.mean(diversity), self.C, self.beta)
