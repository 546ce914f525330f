"""The concave–convex procedure for (13), Algorithm 1, and when learning by convex problems is over.

C.-N. Yu, T. Joachims, Learning structural SVMs with latent variables, ICML 2009.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from lvmdc import distributed
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, Point, Solution, StructuredHinge, rounding

LAST = 0.5  # the gap of the last convex problem, as a share of the tolerance: the other half is left to the decrease
# The tolerance is never more than this share of all that was gained since w = 0: at small C the whole objective falls by less than
# C·ε, and learning would end with the first h*.
SMALL = 0.02
# Inexact: the first convex problem is solved until the gap is this share of what it gained, a later one to this share of what the
# previous one gained. While h* still moves, more exact answers cost passes and end no lower.
FIRST, FOLLOWING = 1.0, 1.0
AFTER_C = 0.25  # after another C, the first one to this share of all that it lets w gain
ROUGH = 2.0  # eager: h* is about to move, so the known planes are solved to twice what only unknown ones can give

Losses = Callable[[ImputedLatents], Tensor]  # (T, K) Δ_i(y, h), which may depend on h*


class StoppingRule:
    """How exactly to solve the next convex problem, and what counts as no decrease; `point` is the current w.

    Args:
        tol: C·ε, the decrease below which learning stops, or a fiftieth of all that was gained since w = 0 if that is less.
        following: a convex problem is solved to this share of what the previous one gained, but not below half of the tolerance.
    """

    point: Point
    scale = 0.0  # the size of the objective, where it is above that at w = 0

    def __init__(self, tol: float, following: float):
        self.tol = self.tolerance = tol
        self.following = following
        self.inner = float("inf")  # the gap of the next convex problem; infinite before the first one

    @property
    def first(self) -> bool:
        """Whether no convex problem was solved yet."""
        return self.inner == float("inf")

    @property
    def last_gap(self) -> float:
        """The gap of the last convex problem of all."""
        return LAST * self.tolerance

    @property
    def next_gap(self) -> float:
        """The gap of the next convex problem; 0 for the first one, which is measured by what it gains."""
        return 0.0 if self.first else max(self.inner, self.last_gap)

    def expect(self, gain: float) -> None:
        """What the next convex problem may gain: how exactly it is solved at first."""
        self.inner = self.following * gain if gain < float("inf") else gain

    def gained(self, gain: float) -> None:
        """What the last convex problem gained."""
        self.inner = min(self.inner, self.following * gain)

    def set_tolerance(self, origin: float, value: float) -> None:
        """After the objective fell from `origin`, at w = 0, to `value`."""
        # Where w = 0 is best there is nothing to gain but rounding, and no gap would be small enough.
        least = rounding(self.point.scores) * max(origin, self.scale) / LAST
        self.tolerance = max(min(self.tol, SMALL * (origin - value)), least)


@dataclass(frozen=True)
class Descent:
    """What a run did: the decrease of (13), the duality gap of its last convex problem, and whether (13) can be lowered no further."""

    decrease: float
    gap: float
    converged: bool


class LatentBlock(StoppingRule, ABC):
    """The w block: (13) over w, from where it was left. `point` is the current w, `latents` its h*.

    Args:
        tol: C·ε, see `StoppingRule`.
        latents: h* at the start. At w = 0 every h ties, so that any choice, or any mixture, is possible.
    """

    following = FOLLOWING

    def __init__(self, hinge: StructuredHinge, solver: ConvexSolver, tol: float, latents: ImputedLatents):
        super().__init__(tol, self.following)
        self.hinge, self.solver, self.latents = hinge, solver, latents
        self.point = hinge.origin()
        self.new_C = False  # whether C has changed since the last convex problem

    @abstractmethod
    def run(self, losses: Losses, max_rounds: int) -> Descent:
        """Lower (13) by at most that many convex problems, until one lowers it by less than the tolerance; it never rises."""

    def change_C(self, C: float, tol: float) -> None:
        """Continue with another C; what that will gain is not known yet."""
        self.tolerance = min(tol, C / self.hinge.C * self.tolerance)
        self.hinge.C, self.tol, self.new_C = C, tol, True
        self.expect(float("inf"))

    def value(self, point: Point, losses: Losses) -> tuple[ImputedLatents, float]:
        """h* = argmax_h w·Ψ(x_i, y_i, h) and the objective (13) with the loss of this h*."""
        latents = ImputedLatents(self.hinge, rows=self.hinge.impute(point.scores))
        return latents, self.hinge.value(point, losses(latents))

    def state(self) -> dict[str, Any]:
        """Tensors and numbers from which `load_state` continues as if never interrupted."""
        c, rows, weights = self.hinge.candidates, self.latents.rows, self.latents.weights
        truth = {
            "rows": None if rows is None else distributed.gather(c, rows + distributed.first_row(c), "samples"),
            "weights": None if weights is None else distributed.gather(c, weights, "candidates"),
        }
        numbers = {"tolerance": self.tolerance, "inner": self.inner, "passes": self.hinge.passes}
        return {"w": self.point.w, "truth": truth, **numbers, "solver": self.solver.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        device = self.point.w.device
        self.point = self.hinge.at(state["w"].to(device))
        c, rows, weights = self.hinge.candidates, state["truth"]["rows"], state["truth"]["weights"]
        if rows is not None:
            self.latents = ImputedLatents(self.hinge, rows=distributed.own(c, rows.to(device), "samples") - distributed.first_row(c))
        else:
            self.latents = ImputedLatents(self.hinge, distributed.own(c, weights.to(device), "candidates"))
        self.tolerance, self.inner, self.hinge.passes = state["tolerance"], state["inner"], state["passes"]
        self.solver.load_state(state["solver"])


class CCCP(LatentBlock):
    """Algorithm 1: alternates h*_i = argmax_h w·Ψ(x_i, y_i, h) and the convex problem (14), solved to its tolerance.

    (14) has one solution, so that the end does not depend on the solver, nor on the order of the samples, but for the gap.

    >>> from lvmdc import Candidates
    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> cccp = CCCP(hinge, NSlack(hinge), tol=1e-6, latents=ImputedLatents(hinge, rows=torch.tensor([0, 1])))
    >>> round(cccp.run(lambda latents: loss, max_rounds=10).decrease, 3)
    0.5
    """

    following = 0.0  # each (14) to the gap that the last one must have

    def first_solution(self, expected_loss: Tensor) -> Solution:
        """What the first (14) ends with."""
        # What the tolerance is shows only once something was gained.
        rough = self.solver.solve(expected_loss, self.latents, self.point, 0.0, LAST * SMALL)
        if rough.beyond is not None:
            return rough
        self.set_tolerance(self.hinge.value_at_origin(expected_loss), rough.value)
        return replace(self.solver.solve(expected_loss, self.latents, rough.point, self.last_gap), beyond=None)

    def round(self, losses: Losses) -> Descent:
        """Solve (14) for the current h*, then impute h*."""
        expected_loss = losses(self.latents)
        before = self.hinge.value(self.point, expected_loss)
        first = self.first
        solution = (
            self.first_solution(expected_loss) if first else self.solver.solve(expected_loss, self.latents, self.point, self.next_gap)
        )
        point = solution.point if solution.beyond is None or not first else solution.beyond
        latents, after = self.value(point, losses)
        same = self.new_C and latents.differs(self.latents) == 0
        self.new_C = False
        if after <= before:
            self.point, self.latents = point, latents
        decrease = max(before - after, 0.0)
        self.set_tolerance(self.hinge.value_at_origin(expected_loss), before - decrease)
        # A new h* may raise its own loss: then the old one stays, and (14) is solved once more, exactly.
        self.gained(decrease if after <= before else 0.0)
        # Where another C, which lowers (13) whatever h* is, leaves h* as it was, (14) is solved for the right one.
        exact = solution.gap <= self.last_gap and point is solution.point
        nothing = decrease <= self.tolerance
        return Descent(decrease, solution.gap, exact and (nothing or same))

    def run(self, losses: Losses, max_rounds: int) -> Descent:
        gap = self.solver.gap(losses(self.latents), self.latents, self.point)
        if gap <= self.last_gap:  # the losses are others, but w solves them as well
            return Descent(0.0, gap, True)
        if self.new_C:
            self.expect(AFTER_C * gap)
        total = 0.0
        for _ in range(max_rounds):
            last = self.round(losses)
            total += last.decrease
            if last.converged:
                break
        if last.converged:
            self.expect(total)
        if self.solver.mixes_scores:
            self.point = self.hinge.at(self.point.w)  # as a resumed run has them
        return replace(last, decrease=total)


class InexactCCCP(CCCP):
    """`CCCP` that solves each (14) only as exactly as h* still moves: an h* that is soon given up is not worth an exact answer.

    Takes fewer passes and mostly ends lower, but where it ends follows the last digit.
    """

    following = FOLLOWING

    def first_solution(self, expected_loss: Tensor) -> Solution:
        return self.solver.solve(expected_loss, self.latents, self.point, 0.0, FIRST)


class EagerCCCP(LatentBlock):
    """Takes the h* of a w as soon as (13) fell by the tolerance there, and solves (14) to its gap only when it no longer does.

        h*_i ← argmax_h w_t·Ψ(x_i, y_i, h) after pass t, if (13) at w_t is below what it was when h* last moved, by the tolerance.

    It ends as Algorithm 1 does, with a (14) solved to its gap that lowers (13) by less than the tolerance, in a third of the passes.
    """

    solver: NSlack

    def run(self, losses: Losses, max_rounds: int) -> Descent:
        hinge, solver = self.hinge, self.solver
        expected_loss = losses(self.latents)
        solver.rebase(expected_loss, self.latents)
        origin = hinge.value_at_origin(expected_loss)
        first = value = upper = hinge.value(self.point, expected_loss)  # upper: of the optimum of (14) for the current h*
        at_move = value  # (13) when h* last moved
        lower, moves, converged = 0.0, 0, False
        for _ in range(solver.max_iter):
            found = solver.advance(self.tolerance, ROUGH)
            lower, upper = max(lower, found.dual), min(upper, found.value)
            latents = ImputedLatents(hinge, rows=found.rows)
            asked = losses(latents)
            here = found.latent_value if asked is expected_loss else hinge.value(found.point, asked)
            self.set_tolerance(origin, min(value, here))
            if here < value:
                value, self.point, self.latents = here, found.point, latents
                if value < at_move - self.tolerance:
                    moves, at_move = moves + 1, value
                    expected_loss = asked
                    solver.rebase(expected_loss, latents)
                    lower, upper = 0.0, value
                    if moves == max_rounds:
                        break
                    continue
            if upper - lower <= self.tolerance:
                converged = self.latents.differs(solver.latents) == 0
                if converged:
                    break
                expected_loss = losses(self.latents)  # the best w has another h*, if it is only a little better: continue with that
                solver.rebase(expected_loss, self.latents)
                at_move, lower, upper = value, 0.0, value
        return Descent(first - value, upper - lower, converged)
