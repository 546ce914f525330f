"""Self-paced learning for (13): the samples that w explains well come first.

M. P. Kumar, B. Packer, D. Koller, Self-paced learning for latent variable models, NIPS 2010.
"""

from typing import Any

import torch
from torch import Tensor

from lvmdc.inference import best_value
from lvmdc.solvers.cccp import Descent, InexactCCCP, Losses
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, StructuredHinge

MU = 1.3  # K is divided by this after a round, as in the paper
HALF = 0.5  # the share of the samples that the first round takes, as in the paper
SEARCHES = 5  # the most alternations between v, w and h* in a round: v then mostly no longer changes
WARM, SHARE = 1.0, 0.5  # gaps of the first problem, with all samples, and of the later ones, as shares of what they gain: h* still moves


class SelfPaced(InexactCCCP):
    """min ½‖w‖² + C/n Σ_i v_i ξ_i − (1/K) Σ_i v_i over w and v ∈ {0, 1}^n; K falls after every round until all v_i = 1.

    For a fixed w the best v takes the samples with C/n ξ_i < 1/K, for a fixed v and h* the problem in w is (14) on those samples, and v, w
    and h* alternate. Once all samples are in, CCCP goes on as it would from any other start: (13) is the same, and so is the end.
    """

    def __init__(self, hinge: StructuredHinge, solver: ConvexSolver, tol: float, latents: ImputedLatents):
        super().__init__(hinge, solver, tol, latents)
        self.paced = False  # whether all samples are in
        self.taken: list[float] = []  # the share of the samples that each v took

    def run(self, losses: Losses, max_rounds: int) -> Descent:
        if self.paced:
            return super().run(losses, max_rounds)
        before = self.hinge.value(self.point, losses(self.latents))
        self._pace(losses)
        self.paced = True
        after = self.hinge.value(self.point, losses(self.latents))
        if after > before:  # the easy samples misled it
            self.point, after = self.hinge.origin(), before
        rest = super().run(losses, max_rounds)
        return Descent(before - after + rest.decrease, rest.gap, rest.converged)

    def _pace(self, losses: Losses) -> None:
        """Rounds on the easy samples, until all are easy."""
        hinge, solver = self.hinge, self.solver
        solution = solver.solve(losses(self.latents), self.latents, self.point, 0.0, WARM)
        self.point = solution.point if solution.beyond is None else solution.beyond
        self.latents = ImputedLatents(hinge, rows=hinge.impute(self.point.scores))
        slack = self._slack(losses(self.latents))
        hard = slack[slack > 0]
        if len(hard) == 0:
            return
        # n/(C K): a sample is easy if its slack is not above it. Where more than half have none, it must be able to grow.
        threshold = max(float(slack.quantile(HALF)), float(hard.min()))
        while True:
            chosen = None
            for _ in range(SEARCHES):
                expected_loss = losses(self.latents)
                easy = self._slack(expected_loss) <= threshold
                if chosen is not None and torch.equal(easy, chosen):
                    break
                chosen = easy
                self.taken.append(float(easy.double().mean()))
                hinge.weight = None if bool(easy.all()) else easy.double()
                latents = ImputedLatents(hinge, rows=self.latents.rows)  # whose mean is by the weights
                self.point = solver.solve(expected_loss, latents, self.point, 0.0, SHARE).point
                self.latents = ImputedLatents(hinge, rows=hinge.impute(self.point.scores))
            if hinge.weight is None:
                return
            threshold *= MU

    def _slack(self, expected_loss: Tensor) -> Tensor:
        """(n,): ξ_i of every sample in the convex problem of the current h*."""
        scores = self.point.scores
        return best_value(self.hinge.candidates, scores + expected_loss).double() - self.latents.of(scores).double()

    def state(self) -> dict[str, Any]:
        return super().state() | {"paced": self.paced}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.paced = state["paced"]
