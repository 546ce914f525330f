"""The history of a training by mini-batches, one row per epoch, and the rules by which it has converged."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any

from lvmdc.lightning.dual_steps import Bounds
from lvmdc.objective import Objective
from lvmdc.solvers.cccp import FIRST, FOLLOWING, LAST, SMALL
from lvmdc.solvers.choice import current_cccp

ENDS = (1 / 2, 3 / 4, 1)  # of all epochs: where the averages that are compared end
AVERAGES = 4  # as many of them must fit
ROUNDING = 1e-7  # of single precision
STATE = ("inner", "before", "gained", "proven")  # of `BlockConvergence`, for a resumed run


class Convergence(ABC):
    """Rows of (11) by its terms, and a rule that says when to stop.

    As for the exact solver, the tolerance is never more than a fiftieth of all that was gained.

    Args:
        tol: C·ε.
    """

    def __init__(self, tol: float):
        self.tol = tol
        self.rows: list[dict[str, float]] = []
        self.origin, self.converged = math.nan, False  # (11) before the first epoch

    def add(self, objective: Objective, measures: dict[str, float], passes: int, seconds: float) -> dict[str, float]:
        """The row of another epoch, which made `passes` passes over the features."""
        before, passes = (self.rows[-1]["objective"], passes + int(self.rows[-1]["passes"])) if self.rows else (self.origin, passes)
        row = {"iteration": len(self.rows) + 1, **objective.terms(), **measures}
        self.rows.append(row | {"decrease": before - objective.value, "passes": passes, "seconds": seconds})
        self.converged = self.enough()
        return self.rows[-1]

    @abstractmethod
    def enough(self) -> bool:
        """Whether learning may stop."""

    @abstractmethod
    def unfinished(self) -> str:
        """What is left to do."""

    def tolerance(self, origin: float | None = None, value: float | None = None) -> float:
        """The tolerance for what fell from `origin` to `value`, (11) where not given; rounding alone never exceeds it."""
        origin = self.origin if origin is None else origin
        value = self.rows[-1]["objective"] if value is None else value
        return max(min(self.tol, SMALL * abs(origin - value)), ROUNDING * abs(origin))

    def warn_if_unfinished(self) -> None:
        """A ConvergenceWarning, if something other than this rule stopped the learning."""
        if not self.converged:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(f"learning stopped after {len(self.rows)} {self.unfinished()}", ConvergenceWarning, stacklevel=3)

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return {"history": [dict(row) for row in self.rows], "converged": self.converged, "origin": self.origin}

    def load(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.rows, self.converged, self.origin = [dict(row) for row in state["history"]], state["converged"], state["origin"]


class Plateau(Convergence):
    """Learning of t epochs stops when the averages of (11) over the `patience` epochs before t/2, 3t/4 and t lie within C·ε.

    With steps of rate 1/t what is still to be gained falls as 1/t, so that the second half gained about as much as is left, however slow
    the problem. Two averages agree by chance while the curve still swings; hence three.

    Args:
        skip: how many epochs at the beginning do not count.

    >>> rule = Plateau(tol=0.1, patience=1)
    >>> rule.origin = 10.0
    >>> for slack in (2.0, 1.0, 0.99, 0.98):  # the second, third and fourth count
    ...     row = rule.add(Objective(0.5, 0.0, slack, 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
    >>> round(row["decrease"], 4), rule.converged
    (0.01, True)
    """

    def __init__(self, tol: float, patience: int = 5, skip: int = 0):
        super().__init__(tol)
        self.patience, self.skip = patience, skip

    def enough(self) -> bool:
        return self.change() <= self.tolerance()

    def change(self) -> float:
        """How far apart the three averages of (11) lie; infinite while there are too few epochs for averages that do not overlap."""
        counted = [row["objective"] for row in self.rows[self.skip :]]
        if len(counted) < AVERAGES * self.patience:
            return math.inf
        ends = [math.ceil(len(counted) * part) for part in ENDS]
        averages = [sum(counted[end - self.patience : end]) / self.patience for end in ends]
        return max(averages) - min(averages)

    def unfinished(self) -> str:
        change, needed = self.change(), self.skip + AVERAGES * self.patience
        tells = f"the objective still changed by {change:.3g} (tolerance {self.tolerance():.3g})" if math.isfinite(change) else ""
        return f"epochs, but {tells or f'it takes {needed} to see whether the objective still changes'}; see trainer.max_epochs"


class PlannedEpochs(Convergence):
    """Learning stops after a planned number of epochs: rates fall to zero over them, and the last one settles w and θ.

    Args:
        planned: how many; 0 while it is not known.

    >>> rule = PlannedEpochs(planned=2)
    >>> for _ in range(2):
    ...     row = rule.add(Objective(0.5, 0.0, 1.0, 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
    ...     rule.converged
    False
    True
    """

    def __init__(self, planned: int = 0):
        super().__init__(tol=math.inf)
        self.planned = planned

    def enough(self) -> bool:
        return len(self.rows) >= self.planned

    def unfinished(self) -> str:
        more = "resume it by ckpt_path=RUN_FOLDER, or plan fewer by trainer.max_epochs"
        return f"of {self.planned} epochs, before rates had come to zero and w and θ were settled; {more}"


class BlockConvergence(Convergence):
    """Block coordinate descent as in the exact solver, where the w block takes as many epochs as it needs, and θ is solved at once.

    In the w block h* is held, at first at the learner's `init`, until the gap of (14) is as small as the exact solver asks for: in the
    first round what was gained since w = 0, in a later one what the last one gained, or half of the tolerance; with `cccp=exact` always
    half of the tolerance. With `eager` h* moves as soon as (13) fell by the tolerance. Once (13) is solved, so is θ, if there is one.
    Learning stops when both blocks together gained less than the tolerance.

    >>> rule = BlockConvergence(tol=0.01)
    >>> rule.origin = 1.0
    >>> rule.h_moves(Bounds(0.8, origin=1.0, dual=0.5), value=0.7)  # a gap of 0.3 where 0.2 was gained
    False
    >>> rule.h_moves(Bounds(0.6, origin=1.0, dual=0.5), value=0.5)
    True
    >>> rule.h_moves(Bounds(0.5, origin=1.0, dual=0.499), value=0.5), rule.proven
    (True, True)
    """

    def __init__(self, tol: float, cccp: str = "inexact"):
        super().__init__(tol)
        kind = current_cccp(cccp)
        self.exact, self.eager = kind == "exact", kind == "eager"
        self.inner, self.before, self.gained = math.inf, math.inf, 0.0
        self.proven = False

    def h_moves(self, bounds: Bounds, value: float) -> bool:
        """Whether h* moves, where (14) has these bounds and (13) this value."""
        tolerance = self.tolerance(bounds.origin, value)
        first, before = self.inner == math.inf, min(self.before, bounds.origin)
        decrease = before - value
        asked = FIRST * (bounds.origin - bounds.value) if first else self.inner
        # Where h* is random, w = 0 may solve (14), though not (13): then h* follows a w whose (13) is below the minimum of (14).
        beyond = (first and value < bounds.dual) or (self.eager and decrease > tolerance)
        if self.exact:
            asked, beyond = 0.0, beyond and bounds.origin - bounds.dual <= tolerance
        if bounds.gap > max(asked, LAST * tolerance) and not beyond:
            return False
        self.proven = bounds.gap <= LAST * tolerance and max(decrease, bounds.value - value) <= tolerance
        self.inner, self.before = min(self.inner, FOLLOWING * max(decrease, 0.0)), min(before, value)
        self.gained += max(decrease, 0.0)
        return True

    def theta_solved(self, gained: float, w_value: float, value: float) -> None:
        """The θ block gained this much and left (13) and (11) at these values: another w block begins, unless learning has converged."""
        self.converged = self.gained + abs(gained) <= self.tolerance(value=value)
        self.inner, self.before, self.gained, self.proven = gained, w_value, 0.0, False

    def enough(self) -> bool:
        return self.converged

    def unfinished(self) -> str:
        gap = self.rows[-1]["gap"] if self.rows else math.inf
        tolerance = self.tolerance() if self.rows else self.tol
        return f"epochs, but w may be {gap:.3g} above the optimum for its h* (tolerance {tolerance:.3g}); see trainer.max_epochs"

    def state(self) -> dict[str, Any]:
        return super().state() | {"rounds": {name: getattr(self, name) for name in STATE}}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        for name in STATE:
            setattr(self, name, state["rounds"][name])
