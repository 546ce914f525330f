"""The concave–convex procedure for (13), Algorithm 1.

C.-N. Yu, T. Joachims, Learning structural SVMs with latent variables, ICML 2009.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lvmdc.solvers.hinge import Point, StructuredHinge
from lvmdc.solvers.one_slack import OneSlack, rounding

# While h* still moves, an exact answer is an answer to the wrong question. The first convex problem is solved until the gap is this
# share of what it gained, a later one to this share of what the round before gained, the last one to this share of the tolerance.
FIRST, FOLLOWING, LAST = 1.0, 0.5, 0.5
# The tolerance is never more than this share of all that was gained since w = 0: at small C the whole objective falls by less than
# C·ε, and learning would end with the first h*.
SMALL = 0.02


@dataclass(frozen=True)
class Round:
    """What one round did: the decrease of (13), the duality gap of its convex problem, whether that was solved to the last tolerance.

    >>> Round(decrease=0.5, gap=0.1, strict=False, converged=False).decrease
    0.5
    """

    decrease: float
    gap: float
    strict: bool
    converged: bool


class CCCP:
    """Alternates h*_i = argmax_h w·Ψ(x_i, y_i, h) and the convex problem (14); (13) never rises.

    Args:
        tol: C·ε, the decrease below which the procedure stops, or a fiftieth of all that was gained since w = 0 if that is less.
        truth: (D,) the mean of Ψ(x_i, y_i, h) at the start. At w = 0 every h ties, so that any choice, or any mixture, will do.

    >>> from lvmdc.joint import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> truth = hinge.mean_psi(hinge.y, torch.tensor([0, 1]))
    >>> cccp = CCCP(hinge, OneSlack(hinge), tol=1e-6, truth=truth)
    >>> round(cccp.run(loss, max_rounds=10).decrease, 3)
    0.5
    """

    def __init__(self, hinge: StructuredHinge, solver: OneSlack, tol: float, truth: Tensor):
        self.hinge, self.solver, self.tol = hinge, solver, tol
        self.point: Point = hinge.origin()
        self.truth: Tensor | None = truth  # None: by the current w
        self.tolerance = tol  # as it stands after the last round
        self.inner = float("inf")  # how exactly to solve the next convex problem

    def round(self, expected_loss: Tensor) -> Round:
        """Impute h*, then solve (14) from where w stands."""
        before = self.hinge.value(self.point, expected_loss)
        if self.truth is not None:
            solution = self.solver.solve(expected_loss, self.truth, self.point, tol=0.0, share=FIRST)
        else:
            truth = self.hinge.mean_psi(self.hinge.y, self.hinge.impute(self.point.scores))
            solution = self.solver.solve(expected_loss, truth, self.point, tol=max(self.inner, LAST * self.tolerance))
        self.truth, self.point = None, solution.point
        after = self.hinge.value(self.point, expected_loss)
        origin = self.hinge.value_at_origin(expected_loss)
        decrease, gained = before - after, origin - after
        # Where w = 0 is best there is nothing to gain but rounding, and no gap would be small enough.
        self.tolerance = max(min(self.tol, SMALL * gained), rounding(self.point.scores) * origin / LAST)
        self.inner = min(self.inner, FOLLOWING * decrease)
        strict = solution.gap <= LAST * self.tolerance
        return Round(decrease, solution.gap, strict, strict and decrease <= self.tolerance)

    def run(self, expected_loss: Tensor, max_rounds: int) -> Round:
        """Rounds until one lowers (13) by less than the tolerance: the whole w block."""
        total = 0.0
        for _ in range(max_rounds):
            last = self.round(expected_loss)
            total += last.decrease
            if last.converged:
                break
        self.inner = FOLLOWING * total  # for the next run, where the expected loss is another
        self.rescore()
        return Round(total, last.gap, last.strict, last.converged)

    def rescore(self) -> None:
        """Score w afresh: on the way its scores were mixed from others', which leaves rounding behind that a resumed run would not have."""
        self.point = self.hinge.at(self.point.w)

    def state(self) -> dict[str, Any]:
        """Tensors and numbers from which `load_state` goes on as if never interrupted."""
        numbers = {"tolerance": self.tolerance, "inner": self.inner, "passes": self.hinge.passes}
        return {"w": self.point.w, "truth": self.truth, "cuts": self.solver.cuts.state(), **numbers}

    def load_state(self, state: dict[str, Any], n_classes: int) -> None:
        """Take up where `state` was taken."""
        device = self.point.w.device
        self.point = self.hinge.at(state["w"].to(device))
        self.truth = None if state["truth"] is None else state["truth"].to(device)
        self.solver.cuts.load_state(state["cuts"], n_classes)
        self.tolerance, self.inner, self.hinge.passes = state["tolerance"], state["inner"], state["passes"]
