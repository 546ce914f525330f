"""The concave–convex procedure for (13), Algorithm 1.

C.-N. Yu, T. Joachims, Learning structural SVMs with latent variables, ICML 2009.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from lvmdc import distributed
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.one_slack import Solution, rounding
from lvmdc.solvers.w_block import Point, StructuredHinge, Truth

# While h* still moves, an exact answer is an answer to the wrong question. The first convex problem is solved until the gap is this
# share of what it gained, a later one to this share of what the round before gained, the last one to this share of the tolerance.
FIRST, FOLLOWING, LAST = 1.0, 1.0, 0.5
ANEW = 0.25  # after another C, the first one to this share of all that it lets w gain
# The tolerance is never more than this share of all that was gained since w = 0: at small C the whole objective falls by less than
# C·ε, and learning would end with the first h*.
SMALL = 0.02


Losses = Callable[[Truth], Tensor]  # (T, K) Δ_i(y, h), which may depend on the h* that stands for the truth


@dataclass(frozen=True)
class Round:
    """What was done: the decrease of (13), the duality gap of its last convex problem, whether (13) can be lowered no further, and
    whether the solver alone is why it is not: it spent all of its passes, gained nothing, and would begin anew.

    >>> Round(decrease=0.5, gap=0.1, converged=False).decrease
    0.5
    """

    decrease: float
    gap: float
    converged: bool
    stuck: bool = False


class ConvexSolver(Protocol):
    """What solves (14), and can be kept and taken up again."""

    mixes_scores: bool  # whether the scores of a solution may be mixed from those of other points, which leaves rounding behind
    begins_anew: bool  # whether nothing is kept from one call to the next, so that the same (14) once more would end no better

    def solve(self, expected_loss: Tensor, truth: Truth, start: Point, tol: float, share: float = 0.0) -> Solution: ...

    def gap(self, expected_loss: Tensor, truth: Truth, point: Point) -> float:
        """What the last (14) proves of another one: by how much `point` is above its optimum at most."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...


class LatentBlock(ABC):
    """The w block: (13) over w, from where it was left. `point` is where w stands, `truth` the h* that goes with it.

    Args:
        tol: C·ε, the decrease below which it stops, or a fiftieth of all that was gained since w = 0 if that is less.
        truth: Ψ(x_i, y_i, h) at the start. At w = 0 every h ties, so that any choice, or any mixture, will do.
    """

    following = FOLLOWING

    def __init__(self, hinge: StructuredHinge, solver: ConvexSolver, tol: float, truth: Truth):
        self.hinge, self.solver, self.tol, self.truth = hinge, solver, tol, truth
        self.point: Point = hinge.origin()
        self.tolerance = tol  # as it stands after the last round
        self.inner = float("inf")  # how exactly to solve the next convex problem; inf: the first one
        self.anew = False  # whether C has changed since the last round

    @abstractmethod
    def run(self, losses: Losses, max_rounds: int) -> Round:
        """Lower (13) until a round lowers it by less than the tolerance, in at most so many; it never rises."""

    def expect(self, gain: float) -> None:
        """Say what the next run, of other losses, may gain: how exactly (14) need be solved at first."""
        self.inner = self.following * gain if gain < float("inf") else gain

    def change_C(self, C: float, tol: float) -> None:
        """Go on under another C; what that will gain is not known yet."""
        self.tolerance = min(tol, C / self.hinge.C * self.tolerance)
        self.hinge.C, self.tol, self.anew = C, tol, True
        self.expect(float("inf"))

    def value(self, point: Point, losses: Losses) -> tuple[Truth, float]:
        """h* = argmax_h w·Ψ(x_i, y_i, h) and the objective (13) with the loss that this h* asks for."""
        truth = Truth(self.hinge, rows=self.hinge.impute(point.scores))
        return truth, self.hinge.value(point, losses(truth))

    def reached(self, solution: Solution) -> Point:
        """Where the first (14) leads to. Where h* is random, w = 0 may solve it, though not (13): every h ties there. Then it is the first
        w met on the way that lowers (13)."""
        return solution.point if solution.met is None else solution.met

    def set_tolerance(self, origin: float, value: float) -> None:
        """After (13) fell from `origin`, at w = 0, to `value`."""
        # Where w = 0 is best there is nothing to gain but rounding, and no gap would be small enough.
        self.tolerance = max(min(self.tol, SMALL * (origin - value)), rounding(self.point.scores) * origin / LAST)

    def state(self) -> dict[str, Any]:
        """Tensors and numbers from which `load_state` goes on as if never interrupted."""
        c, rows, weights = self.hinge.candidates, self.truth.rows, self.truth.weights
        truth = {
            "rows": None if rows is None else distributed.gather(c, rows + distributed.first_row(c), "samples"),
            "weights": None if weights is None else distributed.gather(c, weights, "candidates"),
        }
        numbers = {"tolerance": self.tolerance, "inner": self.inner, "passes": self.hinge.passes}
        return {"w": self.point.w, "truth": truth, **numbers, "solver": self.solver.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was taken."""
        device = self.point.w.device
        self.point = self.hinge.at(state["w"].to(device))
        c, rows, weights = self.hinge.candidates, state["truth"]["rows"], state["truth"]["weights"]
        if rows is not None:
            self.truth = Truth(self.hinge, rows=distributed.own(c, rows.to(device), "samples") - distributed.first_row(c))
        else:
            self.truth = Truth(self.hinge, distributed.own(c, weights.to(device), "candidates"))
        self.tolerance, self.inner, self.hinge.passes = state["tolerance"], state["inner"], state["passes"]
        self.solver.load_state(state["solver"])


class CCCP(LatentBlock):
    """Alternates h*_i = argmax_h w·Ψ(x_i, y_i, h) and the convex problem (14).

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers import OneSlack
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> cccp = CCCP(hinge, OneSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(cccp.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    def first_solution(self, expected_loss: Tensor) -> Solution:
        """What the first (14) ends with."""
        return self.solver.solve(expected_loss, self.truth, self.point, 0.0, FIRST)

    def round(self, losses: Losses) -> Round:
        """Solve (14) for the h* that stands, then impute it anew."""
        expected_loss = losses(self.truth)
        before = self.hinge.value(self.point, expected_loss)
        first = self.inner == float("inf")
        tol = 0.0 if first else max(self.inner, LAST * self.tolerance)
        solution = self.first_solution(expected_loss) if first else self.solver.solve(expected_loss, self.truth, self.point, tol)
        point = self.reached(solution) if first else solution.point
        truth, after = self.value(point, losses)
        stays = self.anew and distributed.highest(self.hinge.candidates, truth.differs(self.truth)) == 0
        self.anew = False
        if after <= before:
            self.point, self.truth = point, truth
        decrease = max(before - after, 0.0)
        self.set_tolerance(self.hinge.value_at_origin(expected_loss), before - decrease)
        # A new h* may raise the loss that it is the truth of: then the old one stays, and (14) is solved once more, exactly.
        self.inner = min(self.inner, self.following * decrease if after <= before else 0.0)
        # Where another C, which lowers (13) whatever h* is, leaves h* as it was, (14) is solved for the right one.
        strict = solution.gap <= LAST * self.tolerance and point is solution.point
        nothing = decrease <= self.tolerance
        # A gap above what was asked for is the mark of a solver at the end of its passes.
        stuck = nothing and not first and self.solver.begins_anew and solution.gap > tol
        return Round(decrease, solution.gap, strict and (nothing or stays), stuck and not strict)

    def run(self, losses: Losses, max_rounds: int) -> Round:
        gap = self.solver.gap(losses(self.truth), self.truth, self.point)
        if gap <= LAST * self.tolerance:  # the losses are others, but w answers them as well
            return Round(0.0, gap, True)
        if self.anew:
            self.expect(ANEW * gap)
        total = 0.0
        for _ in range(max_rounds):
            last = self.round(losses)
            total += last.decrease
            if last.converged or last.stuck:
                break
        if last.converged:
            self.expect(total)
        if self.solver.mixes_scores:
            self.point = self.hinge.at(self.point.w)  # as a resumed run has them
        return Round(total, last.gap, last.converged, last.stuck)


# CCCP as Algorithm 1 has it: every convex problem is solved before h* moves.


class FullCCCP(CCCP):
    """Solves each (14) to the gap that the last one must have.

    (14) has one solution, so that where this ends does not depend on who solves it, nor on the order of the samples, but for the gap.
    `CCCP` is quicker and mostly ends lower: an h* that is given up early was not worth an exact answer.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers import NSlack
    >>> from lvmdc.solvers.w_block import StructuredHinge
    >>> from lvmdc.solvers.w_block import Truth
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> block = FullCCCP(hinge, NSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(block.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    following = 0.0

    def first_solution(self, expected_loss: Tensor) -> Solution:
        # What the tolerance is shows only once something was gained.
        rough = self.solver.solve(expected_loss, self.truth, self.point, 0.0, LAST * SMALL)
        if rough.met is not None:
            return rough
        self.set_tolerance(self.hinge.value_at_origin(expected_loss), rough.value)
        return replace(self.solver.solve(expected_loss, self.truth, rough.point, LAST * self.tolerance), met=None)


# CCCP that does not wait for (14): h* moves after every pass that lowered (13).

ROUGH = 2.0  # h* is about to move: the known planes are solved to twice what only unknown ones can give


class EagerCCCP(LatentBlock):
    """Takes the h* of a w as soon as (13) fell by the tolerance there, and solves (14) to its gap only when it no longer does.

        h*_i ← argmax_h w_t·Ψ(x_i, y_i, h) after pass t, if (13) at w_t is below what it was when h* last moved, by the tolerance.

    It ends as Algorithm 1 does, with an (14) solved to its gap that lowers (13) by less than the tolerance. While h* still moves an
    exact answer would be an answer to the wrong question: this needs a third of the passes, and mostly ends lower.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers.w_block import StructuredHinge
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> block = EagerCCCP(hinge, NSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(block.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    solver: NSlack

    def run(self, losses: Losses, max_rounds: int) -> Round:
        hinge, solver = self.hinge, self.solver
        expected_loss = losses(self.truth)
        solver.rebase(expected_loss, self.truth)
        origin = hinge.value_at_origin(expected_loss)
        first = value = upper = hinge.value(self.point, expected_loss)  # upper: of the optimum of (14) for the h* that stands
        stood = value  # (13) when h* last moved
        lower, moves, converged = 0.0, 0, False
        for _ in range(solver.max_iter):
            found = solver.advance(self.tolerance, ROUGH)
            lower, upper = max(lower, found.dual), min(upper, found.value)
            truth = Truth(hinge, rows=found.rows)
            asked = losses(truth)
            here = found.latent_value if asked is expected_loss else hinge.value(found.point, asked)
            self.set_tolerance(origin, min(value, here))
            if here < value:
                value, self.point, self.truth = here, found.point, truth
                if value < stood - self.tolerance:
                    moves, stood = moves + 1, value
                    expected_loss = asked
                    solver.rebase(expected_loss, truth)
                    lower, upper = 0.0, value
                    if moves == max_rounds:
                        break
                    continue
            if upper - lower <= self.tolerance:
                converged = self.truth.differs(solver.truth) == 0
                if converged:
                    break
                expected_loss = losses(self.truth)  # the best w has another h*, if it is only a little better: on with that
                solver.rebase(expected_loss, self.truth)
                stood, lower, upper = value, 0.0, value
        return Round(first - value, upper - lower, converged)
