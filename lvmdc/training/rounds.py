"""The record of a training by dual steps: whose turn it is, when h* moves, and when it is enough."""

from __future__ import annotations

import math
import warnings
from typing import Any

from lvmdc.learners import ConvergenceWarning
from lvmdc.solvers.cccp import FIRST, FOLLOWING, LAST
from lvmdc.solvers.choice import Rounds
from lvmdc.training.dual_steps import Bounds
from lvmdc.training.epochs import Epochs

NUMBERS = ("inner", "before", "began", "gained", "proven")  # what a resumed run must know
SHORTEST, LONGEST = 4, 50  # epochs of a turn of θ: the rate of a network need not fall, and it may never be still
ROUGH = 0.05  # of what a turn of θ gained: w is about to move, and θ with it


class DualEpochs(Epochs):
    """Block coordinate descent as the exact solver goes about it, of which nobody knows beforehand how many epochs a block takes.

    In the turn of w, h* is held, at first at the learner's `init`, until the gap of (14) is as small as the exact solver asks for: in the
    first round what was gained since w = 0, in a later one what the last one gained, or half of the tolerance; with `full` always that.
    With `eager` it moves as soon as (13) fell by the tolerance. Once (13) is solved so, learning ends, or θ has its turn. It is solved at
    once, or moves by an optimizer until the second half of its turn changed what it minimises by less than the tolerance, or by less than
    a twentieth of all that the turn gained. Learning ends with a turn of each that gained less than the tolerance together.

    Args:
        rounds: of CCCP, `strict`, `full` or `eager`.

    >>> epochs = DualEpochs(tol=0.01)
    >>> epochs.origin = 1.0
    >>> epochs.ask(Bounds(0.8, origin=1.0, dual=0.5), value=0.7)  # a gap of 0.3 where 0.2 was gained
    False
    >>> epochs.ask(Bounds(0.6, origin=1.0, dual=0.5), value=0.5)
    True
    >>> epochs.ask(Bounds(0.5, origin=1.0, dual=0.499), value=0.5), epochs.proven
    (True, True)
    """

    def __init__(self, tol: float, rounds: Rounds = "strict"):
        super().__init__(tol)
        self.rounds = rounds
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
        if self.rounds == "full":
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
