"""What learners of a log-linear P_w share (EM, M3E): they know h by its posterior P_w(h | x, y), not by one h* alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import ClassFirst, ConditionalModel, Posterior
from lvmdc.learners.base import LatentLearner
from lvmdc.learners.checks import Checked
from lvmdc.learners.state import Training
from lvmdc.objective import half_square
from lvmdc.solvers.cccp import StoppingRule
from lvmdc.solvers.likelihood import posterior
from lvmdc.solvers.linear import Regularised, Risk, finite, lower
from lvmdc.solvers.w_block import LinearScores, Point, Solution

# The first convex problem is solved until the gap is this share of what it gained, a later one to this share of what the last one
# gained: the bound is about to change. Of three settings, the one with the lowest training objective of M3E on the mammals.
FIRST, FOLLOWING = 0.1, 0.5


class SampleRisk(Protocol):
    """What the objective sums over samples."""

    def each(self, scores: Tensor) -> Tensor:
        """(T, K) → (n,)."""


class LogLinearTraining(Training, StoppingRule):
    """½‖w‖² + C · mean of `risk`, where `p` is the posterior of h given y; `log_prior` (T, K) is that of P_w, see `class_prior`."""

    def __init__(self, learner: LogLinearLearner, samples: Checked):
        Training.__init__(self, learner, samples)
        StoppingRule.__init__(self, learner.C * learner.tol, FOLLOWING)
        self.space = LinearScores(self.candidates, learner.joint_)
        self.risk = learner._risk(self.candidates, self.y, self.known)
        self.log_prior = learner._log_prior(self.candidates)
        self.point = self.space.origin()
        self.origin = self.value(self.point)

    def change_C(self, C: float, tol: float) -> None:
        self.origin, self.tol = C / self.C * self.origin, tol
        self.tolerance = tol
        super().change_C(C, tol)

    @property
    def passes(self) -> float:  # type: ignore[override]
        return self.space.passes

    def value(self, point: Point) -> float:
        """The objective."""
        return half_square(point.w) + self.C * self.mean(self.risk.each(point.scores))

    def go(self, w: Tensor) -> None:
        """Move w, and the posterior with it."""
        self.point = self.space.at(w)
        self.p = posterior(self.candidates, self.point.scores, self.y, self.known, self.log_prior).to(self.p)

    def along(self, end: Point, expand: bool) -> Tensor:
        """A w on the line from the current one through `end` that lowers the objective: that of `end`, or one beyond or before it."""
        start, rise, direction = self.point, finite(end.scores) - finite(self.point.scores), end.w - self.point.w

        def value(step: float) -> float:
            return self.value(Point(start.w + step * direction, start.scores + step * rise))

        return start.w + lower(value, self.value(start), expand) * direction

    def state(self) -> dict[str, Any]:
        return {"w": self.point.w, "tolerance": self.tolerance, "inner": self.inner, "passes": self.passes}

    def load_state(self, state: dict[str, Any]) -> None:
        self.go(state["w"].to(self.point.w.device))
        self.tolerance, self.inner, self.space.passes = state["tolerance"], state["inner"], state["passes"]


class LogLinearLearner(LatentLearner):
    """An outer iteration takes the posterior at the current w, at first that of the start, and solves the convex problem that it makes of
    the objective. From the end of the first on, the objective never rises; learning stops when an iteration gains less than C·ε."""

    uses_loss = False
    _training: LogLinearTraining

    @abstractmethod
    def _risk(self, candidates: Candidates, y: Tensor, known: Tensor) -> SampleRisk:
        """What the mean in the objective is of."""

    def _log_prior(self, candidates: Candidates) -> Tensor | None:
        """(T, K): the prior of h in P_w, see `class_prior`; None for a learner that uses it in its start alone."""
        return None

    @abstractmethod
    def _convex(self) -> Risk:
        """The convex bound of the risk at the current w, at first under the posterior of the start."""

    @abstractmethod
    def _solve(self, problem: Regularised, start: Point, tol: float, share: float) -> Solution: ...

    @abstractmethod
    def _predictor(self, w: Tensor) -> ClassFirst:
        """How (y, h) is predicted."""

    @abstractmethod
    def _terms(self) -> dict[str, float]:
        """The objective by its terms, and other columns."""

    def _beyond(self) -> bool:
        """Whether w may go beyond the optimum of the convex problem, if the objective falls further there."""
        return True

    def _make_training(self, samples: Checked) -> LogLinearTraining:
        return LogLinearTraining(self, samples)

    def _step(self) -> dict[str, float]:
        t = self._training
        problem, before, first = Regularised(t.space, self._convex(), self.C), t.value(t.point), t.first
        at_first = problem.value(t.point)
        solution = self._solve(problem, t.point, t.next_gap, FIRST if first else 0.0)
        # Scored from w: scores that were mixed from others' on the way have rounding errors that a resumed run would not have.
        old = t.point.w
        t.go(solution.point.w if first else t.along(solution.point, self._beyond()))
        value = t.value(t.point)
        if value > before and not first:  # by rounding alone
            t.go(old)
            value = t.value(t.point)
        t.scale = max(at_first, self.C)
        t.set_tolerance(t.origin, value)
        t.gained(at_first - solution.value)
        decrease = before - value
        self.converged_ = not first and solution.gap <= t.last_gap and decrease <= t.tolerance
        measures = t.measures(self._predictor(t.point.w).ranking(t.candidates, t.point.scores))
        return {"objective": value, **self._terms(), **measures, "decrease": decrease, "gap": solution.gap}

    def prediction(self, candidates: Candidates) -> ClassFirst:
        """P_w, for scores, the prediction and the k best, on candidates that it fits."""
        super().prediction(candidates)  # refuses what does not fit
        return self._predictor(self.coef_.to(candidates.device)).requires_grad_(False)

    def _conditional(self) -> ConditionalModel:
        return Posterior(self.coef_, self.joint_)
