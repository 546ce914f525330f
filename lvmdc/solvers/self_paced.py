"""Self-paced learning for (13): the samples that w explains well come first.

M. P. Kumar, B. Packer, D. Koller, Self-paced learning for latent variable models, NIPS 2010.
"""

from typing import Any

import torch
from torch import Tensor

from lvmdc.inference import best_value
from lvmdc.solvers.cccp import CCCP, ConvexSolver, Losses, Round
from lvmdc.solvers.w_block import StructuredHinge, Truth

MU = 1.3  # by which K is divided after a round
HALF = 0.5  # the share of the samples that the first round takes
SEARCHES = 5  # alternations between v, w and h* in a round at most
WARM, SHARE = 1.0, 0.5  # gaps of the first problem, with all samples, and of the later ones, as shares of what they gain


class SelfPaced(CCCP):
    """min ½‖w‖² + C/n Σ_i v_i ξ_i − (1/K) Σ_i v_i over w and v ∈ {0, 1}^n; K falls after every round until all v_i = 1.

    For a fixed w the best v takes the samples with C/n ξ_i < 1/K, for a fixed v and h* the problem in w is (14) on those samples, and v, w
    and h* alternate. Once all samples are in, CCCP goes on as it would from any other start: (13) is the same, and so is the end.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers import OneSlack
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> block = SelfPaced(hinge, OneSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(block.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    def __init__(self, hinge: StructuredHinge, solver: ConvexSolver, tol: float, truth: Truth):
        super().__init__(hinge, solver, tol, truth)
        self.paced = False  # whether all samples are in
        self.taken: list[float] = []  # the share of the samples that each v took

    def run(self, losses: Losses, max_rounds: int) -> Round:
        if self.paced:
            return super().run(losses, max_rounds)
        before = self.hinge.value(self.point, losses(self.truth))
        self._pace(losses)
        self.paced = True
        expected_loss = losses(self.truth)
        after = self.hinge.value(self.point, expected_loss)
        if after > before:  # the easy samples misled it
            self.point, after = self.hinge.origin(), before
        rest = super().run(losses, max_rounds)
        return Round(before - after + rest.decrease, rest.gap, rest.converged, rest.stuck)

    def _pace(self, losses: Losses) -> None:
        """Rounds on the easy samples, until all are easy."""
        hinge, solver = self.hinge, self.solver
        solution = solver.solve(losses(self.truth), self.truth, self.point, 0.0, WARM)
        self.point = self.reached(solution)
        self.truth = Truth(hinge, rows=hinge.impute(self.point.scores))
        slack = self._slack(losses(self.truth))
        hard = slack[slack > 0]
        if len(hard) == 0:
            return
        # n/(C K): a sample is easy if its slack is not above it. Where more than half have none, it must be able to grow.
        threshold = max(float(slack.quantile(HALF)), float(hard.min()))
        while True:
            chosen = None
            for _ in range(SEARCHES):
                expected_loss = losses(self.truth)
                easy = self._slack(expected_loss) <= threshold
                if chosen is not None and torch.equal(easy, chosen):
                    break
                chosen = easy
                self.taken.append(float(easy.double().mean()))
                hinge.weight = None if bool(easy.all()) else easy.double()
                truth = Truth(hinge, self.truth.weights, self.truth.rows)  # whose mean is by the weights
                self.point = solver.solve(expected_loss, truth, self.point, 0.0, SHARE).point
                self.truth = Truth(hinge, rows=hinge.impute(self.point.scores))
            if hinge.weight is None:
                return
            threshold *= MU

    def _slack(self, expected_loss: Tensor) -> Tensor:
        """(n,): ξ_i of every sample in the convex problem, where h* stands."""
        scores = self.point.scores
        return best_value(self.hinge.candidates, scores + expected_loss).double() - self.truth.of(scores).double()

    def state(self) -> dict[str, Any]:
        return super().state() | {"paced": self.paced}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.paced = state["paced"]
