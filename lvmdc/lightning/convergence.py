"""The record of a stochastic training, an epoch a row, and when it is enough."""

from __future__ import annotations

import math
import warnings
from typing import Any

from lvmdc.learners import ConvergenceWarning
from lvmdc.lightning.dual import Bounds
from lvmdc.objective import Objective
from lvmdc.solvers.cccp import FIRST, FOLLOWING, LAST, SMALL
from lvmdc.solvers.choice import CCCPKind, current_cccp

ENDS = (1 / 2, 3 / 4, 1)  # of all epochs: where the averages that are compared end
AVERAGES = 4  # as many of them must fit
ROUNDING = 1e-7  # of single precision


class Epochs:
    """Rows of (11) by its terms. Learning of t epochs ends when the averages of (11) over the `patience` epochs before t/2, 3t/4 and t lie
    within C·ε.

    Steps of 1/t gain ever less an epoch: what is still to be gained falls as 1/t, so that the second half gained about as much as is left,
    however slow the problem. Three averages, since two agree by chance while the curve still swings. (11) may also rise: with
    `theta_bound=prediction` θ minimises (15), not (11). As for the exact solver, the tolerance is never more than a fiftieth of all that
    was gained.

    Args:
        tol: C·ε.
        skip: how many epochs at the beginning do not count.

    >>> epochs = Epochs(tol=0.1, patience=1)
    >>> epochs.origin = 10.0
    >>> for slack in (2.0, 1.0, 0.99, 0.98):  # the second, third and fourth count
    ...     row = epochs.add(Objective(0.5, 0.0, slack, 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
    >>> round(row["decrease"], 4), epochs.converged
    (0.01, True)
    """

    def __init__(self, tol: float, patience: int = 5, skip: int = 0):
        self.tol, self.patience, self.skip = tol, patience, skip
        self.rows: list[dict[str, float]] = []
        self.origin, self.converged = math.nan, False

    def add(self, objective: Objective, measures: dict[str, float], passes: int, seconds: float) -> dict[str, float]:
        """The row of one more epoch, which made so many passes over the features."""
        before, passes = (self.rows[-1]["objective"], passes + int(self.rows[-1]["passes"])) if self.rows else (self.origin, passes)
        row = {"iteration": len(self.rows) + 1, **objective.terms(), **measures}
        self.rows.append(row | {"decrease": before - objective.value, "passes": passes, "seconds": seconds})
        self.converged = self.enough()
        return self.rows[-1]

    def enough(self) -> bool:
        """Whether learning may end."""
        return self.change() <= self.tolerance()

    def change(self) -> float:
        """How far apart the three averages of (11) lie; infinite while there are too few epochs."""
        counted = [row["objective"] for row in self.rows[self.skip :]]
        if len(counted) < self.needed:
            return math.inf
        ends = [math.ceil(len(counted) * part) for part in ENDS]
        averages = [sum(counted[end - self.patience : end]) / self.patience for end in ends]
        return max(averages) - min(averages)

    @property
    def needed(self) -> int:
        """How many epochs it takes to tell: no two averages have one in common."""
        return AVERAGES * self.patience

    def tolerance(self) -> float:
        """What `change` must fall below."""
        return self.tolerance_at(self.origin, self.rows[-1]["objective"])

    def tolerance_at(self, origin: float, value: float) -> float:
        """The same where something fell from `origin` to `value`; rounding alone is never more."""
        return max(min(self.tol, SMALL * abs(origin - value)), ROUNDING * abs(origin))

    def warn_if_unfinished(self) -> None:
        """A ConvergenceWarning, if something else than this rule ended the learning."""
        if not self.rows or self.converged:
            return
        needed, change = self.skip + self.needed, self.change()
        tells = f"the objective still changed by {change:.3g} (tolerance {self.tolerance():.3g})"
        why = tells if math.isfinite(change) else f"it takes {needed} to tell whether the objective still changes"
        message = f"the stochastic solver stopped after {len(self.rows)} epochs, but {why}; see trainer.max_epochs"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return {"history": [dict(row) for row in self.rows], "converged": self.converged, "origin": self.origin}

    def load(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.rows, self.converged, self.origin = [dict(row) for row in state["history"]], state["converged"], state["origin"]


class PlannedEpochs(Epochs):
    """The same where learning ends after so many epochs, whatever (11) does: rates fall to zero over them, and the last one settles.

    Args:
        planned: how many; 0 while it is not known.

    >>> epochs = PlannedEpochs(planned=2)
    >>> for _ in range(2):
    ...     row = epochs.add(Objective(0.5, 0.0, 1.0, 0.0, C=1.0, beta=0.1), {}, passes=1, seconds=0.0)
    ...     epochs.converged
    False
    True
    """

    def __init__(self, planned: int = 0):
        super().__init__(tol=math.inf)
        self.planned = planned

    def enough(self) -> bool:
        return len(self.rows) >= self.planned

    def warn_if_unfinished(self) -> None:
        if self.converged:
            return
        message = (
            f"learning stopped after {len(self.rows)} of {self.planned} epochs, before rates had come to zero and w and θ were settled"
        )
        warnings.warn(f"{message}; resume it by ckpt_path=…, or plan fewer by trainer.max_epochs", ConvergenceWarning, stacklevel=3)


# The record of a training by dual steps: whose turn it is, when h* moves, and when it is enough.

NUMBERS = ("inner", "before", "began", "gained", "proven")  # what a resumed run must know
SHORTEST, LONGEST = 4, 50  # epochs of a turn of θ: the rate of a network need not fall, and it may never be still
ROUGH = 0.05  # of what a turn of θ gained: w is about to move, and θ with it


class DualEpochs(Epochs):
    """Block coordinate descent as the exact solver goes about it, of which nobody knows beforehand how many epochs a block takes.

    In the turn of w, h* is held, at first at the learner's `init`, until the gap of (14) is as small as the exact solver asks for: in the
    first round what was gained since w = 0, in a later one what the last one gained, or half of the tolerance; with `exact` always that.
    With `eager` it moves as soon as (13) fell by the tolerance. Once (13) is solved so, learning ends, or θ has its turn. It is solved at
    once, or moves by an optimizer until the second half of its turn changed what it minimises by less than the tolerance, or by less than
    a twentieth of all that the turn gained. Learning ends with a turn of each that gained less than the tolerance together.

    Args:
        rounds: the kind of CCCP, `exact`, `inexact` or `eager`.

    >>> epochs = DualEpochs(tol=0.01)
    >>> epochs.origin = 1.0
    >>> epochs.ask(Bounds(0.8, origin=1.0, dual=0.5), value=0.7)  # a gap of 0.3 where 0.2 was gained
    False
    >>> epochs.ask(Bounds(0.6, origin=1.0, dual=0.5), value=0.5)
    True
    >>> epochs.ask(Bounds(0.5, origin=1.0, dual=0.499), value=0.5), epochs.proven
    (True, True)
    """

    def __init__(self, tol: float, rounds: CCCPKind = "inexact"):
        super().__init__(tol)
        self.rounds = current_cccp(rounds)
        self.inner, self.before, self.gained = math.inf, math.inf, 0.0
        self.began: list[float] = []  # what θ minimises, at the beginning of its turn and after every epoch of it; empty in that of w
        self.proven = False

    @property
    def turn_of_theta(self) -> bool:
        return bool(self.began)

    def ask(self, bounds: Bounds, value: float) -> bool:
        """In the turn of w: whether h* moves, where (14) has these bounds and (13) this value."""
        tolerance = self.tolerance_at(bounds.origin, value)
        first, before = self.inner == math.inf, min(self.before, bounds.origin)
        decrease = before - value
        asked = FIRST * (bounds.origin - bounds.value) if first else self.inner
        # Where h* is random, w = 0 may solve (14), though not (13): then a w met on the way tells h*, below all that (14) can be.
        beyond = (first and value < bounds.dual) or (self.rounds == "eager" and decrease > tolerance)
        if self.rounds == "exact":
            asked, beyond = 0.0, beyond and bounds.origin - bounds.dual <= tolerance
        if bounds.gap > max(asked, LAST * tolerance) and not beyond:
            return False
        self.proven = bounds.gap <= LAST * tolerance and max(decrease, bounds.value - value) <= tolerance
        self.inner, self.before = min(self.inner, FOLLOWING * max(decrease, 0.0)), min(before, value)
        self.gained += max(decrease, 0.0)
        return True

    def add_theta(self, theta_value: float, value: float) -> float | None:
        """In the turn of θ, after an epoch that left what it minimises and (11) at these: what the turn gained, if it is over."""
        self.began.append(theta_value)
        t, gained = len(self.began) - 1, self.began[0] - theta_value
        still = abs(self.began[t // 2] - theta_value) <= max(self.tolerance_at(self.origin, value), ROUGH * gained)
        return gained if (still and t >= SHORTEST) or t >= LONGEST else None

    def end_theta(self, gained: float, w_value: float, value: float) -> None:
        """The turn of θ gained so much, and left (13) and (11) at these: it is that of w, unless it is enough."""
        self.converged = self.gained + abs(gained) <= self.tolerance_at(self.origin, value)
        self.inner, self.before, self.gained, self.proven, self.began = gained, w_value, 0.0, False, []

    def enough(self) -> bool:
        return self.converged

    def warn_if_unfinished(self) -> None:
        if not self.rows or self.converged:
            return
        who = "θ still moves" if self.turn_of_theta else f"w may be {self.rows[-1]['gap']:.3g} above the optimum for its h*"
        tells = f"but {who} (tolerance {self.tolerance():.3g}); see trainer.max_epochs"
        warnings.warn(f"the stochastic solver stopped after {len(self.rows)} epochs, {tells}", ConvergenceWarning, stacklevel=3)

    def state(self) -> dict[str, Any]:
        return super().state() | {"rounds": {name: getattr(self, name) for name in NUMBERS}}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        for name, value in state.get("rounds", {}).items():  # none in what subgradient steps wrote
            setattr(self, name, list(value) if isinstance(value, list) else value)
