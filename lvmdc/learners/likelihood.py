"""What learners of a log-linear P_w share: they know h by its posterior P_w(h | x, y), not by one h* alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import ClassFirst, Conditional, ConditionalModel, Posterior, score_dtype
from lvmdc.inference import best
from lvmdc.learners.base import LatentLearner
from lvmdc.learners.checks import Checked
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import half_square
from lvmdc.solvers.cccp import LAST, SMALL
from lvmdc.solvers.lbfgs import lower
from lvmdc.solvers.likelihood import posterior
from lvmdc.solvers.linear import LinearScores, Regularised, Risk, finite
from lvmdc.solvers.one_slack import Solution, rounding
from lvmdc.solvers.w_block import Point

# The first convex problem is solved until the gap is this share of what it gained, a later one to this share of what the last one gained.
FIRST, FOLLOWING = 0.1, 0.5


class SampleRisk(Protocol):
    """What the objective sums over samples."""

    def each(self, scores: Tensor) -> Tensor:
        """(T, K) → (n,)."""


@dataclass
class SoftTraining:
    """The working parts of one training: its samples, where w stands, and the posterior `p` (T,) of h given y."""

    space: LinearScores
    y: Tensor
    known: Tensor
    bound: ExpectedLoss
    risk: SampleRisk
    C: float
    start: Tensor
    point: Point
    p: Tensor
    tolerance: float
    log_prior: Tensor | None = None  # (T, K) of P_w, see `class_prior`
    inner: float = float("inf")  # how exactly to solve the next convex problem; inf: the first one

    def __post_init__(self) -> None:
        self.origin = self.value(self.point)

    def change_C(self, C: float, tol: float) -> None:
        """Go on under another C, with tol = C·ε."""
        self.origin, self.tolerance, self.C = C / self.C * self.origin, tol, C

    @property
    def candidates(self) -> Candidates:
        return self.space.candidates

    @property
    def passes(self) -> int:
        """Passes over the features so far."""
        return self.space.passes

    @property
    def first(self) -> bool:
        """Whether w is still 0, and the posterior that of the start."""
        return self.inner == float("inf")

    def mean(self, scores: Tensor) -> float:
        return float(self.risk.each(scores).mean())

    def value(self, point: Point) -> float:
        """The objective ½‖w‖² + C · mean."""
        return half_square(point.w) + self.C * self.mean(point.scores)

    def go(self, w: Tensor) -> None:
        """Move w, and the posterior with it."""
        self.point = self.space.at(w)
        self.p = posterior(self.candidates, self.point.scores, self.y, self.known, self.log_prior).to(self.p)

    def along(self, end: Point, expand: bool) -> Tensor:
        """The w on the line from where w stands through `end` that lowers the objective: that of `end`, or one beyond or before it."""
        start, rise, direction = self.point, finite(end.scores) - finite(self.point.scores), end.w - self.point.w

        def value(step: float) -> float:
            return self.value(Point(start.w + step * direction, start.scores + step * rise))

        return start.w + lower(value, self.value(start), expand) * direction


class SoftLearner(LatentLearner):
    """An outer iteration takes the posterior at the current w, at first that of the start, and solves the convex problem that it makes of
    the objective. From the end of the first on, the objective never rises; learning stops when an iteration gains less than C·ε."""

    _training: SoftTraining

    # ---- what a learner says of itself -----------------------------------------------------------------------------

    @abstractmethod
    def _risk(self, candidates: Candidates, y: Tensor, known: Tensor) -> SampleRisk:
        """What the mean in the objective is of."""

    def _log_prior(self, candidates: Candidates) -> Tensor | None:
        """(T, K): the prior of h in P_w, see `class_prior`; None for a learner that takes it for its start alone."""
        return None

    @abstractmethod
    def _convex(self) -> Risk:
        """Its convex bound at the current w, at first under the posterior of the start."""

    @abstractmethod
    def _solve(self, problem: Regularised, start: Point, tol: float, share: float) -> Solution: ...

    @abstractmethod
    def _predictor(self, w: Tensor) -> ClassFirst:
        """How (y, h) is predicted."""

    @abstractmethod
    def _terms(self) -> dict[str, float]:
        """The objective by its terms, and what else is worth a column."""

    def _beyond(self) -> bool:
        """Whether w may go beyond the optimum of the convex problem, if the objective falls further there."""
        return True

    # ---- learning ------------------------------------------------------------------------------------------------

    def _make_training(self, samples: Checked) -> SoftTraining:
        candidates, y, known = samples.candidates, samples.y, samples.known
        space, risk = LinearScores(candidates, self.joint_), self._risk(candidates, y, known)
        bound = ExpectedLoss(self.loss_, candidates, y, self.n_classes_, self.memory_budget)
        start = self.start_posterior(samples)
        p = start.to(score_dtype(candidates))
        return SoftTraining(space, y, known, bound, risk, self.C, start, space.origin(), p, self.C * self.tol, self._log_prior(candidates))

    def _begin(self) -> None:
        """The posterior starts where h does."""

    def _step(self) -> dict[str, float]:
        t = self._training
        problem, before, first = Regularised(t.space, self._convex(), self.C), t.value(t.point), t.first
        tol, share = (0.0, FIRST) if first else (max(t.inner, LAST * t.tolerance), 0.0)
        at_first = problem.value(t.point)
        solution = self._solve(problem, t.point, tol, share)
        # Scored afresh: on the way scores were mixed from others', which leaves rounding behind that a resumed run would not have.
        old = t.point.w
        t.go(solution.point.w if first else t.along(solution.point, self._beyond()))
        value = t.value(t.point)
        if value > before and not first:  # by rounding alone
            t.go(old)
            value = t.value(t.point)
        # Where w = 0 is best there is nothing to gain but rounding, and no gap would be small enough.
        least = rounding(t.point.scores) * max(t.origin, at_first, self.C) / LAST
        t.tolerance = max(min(self.C * self.tol, SMALL * (t.origin - value)), least)
        t.inner = min(t.inner, FOLLOWING * (at_first - solution.value))
        decrease = before - value
        self.converged_ = not first and solution.gap <= LAST * t.tolerance and decrease <= t.tolerance
        return {"objective": value, **self._terms(), **self._measures(), "decrease": decrease, "gap": solution.gap}

    def _measures(self) -> dict[str, float]:
        """The expected loss of the prediction under the posterior, class error, entropy of the posterior."""
        t = self._training
        ranked = self._predictor(t.point.w).ranking(t.candidates, t.point.scores)
        y_hat, rows = best(t.candidates, ranked)
        return {
            "loss": float(t.bound.expected_at(t.p, y_hat, rows).double().mean()),
            "error": float((y_hat != t.y).double().mean()),
            "entropy": float(Conditional(t.candidates, t.y, t.p).entropy().double().mean()),
        }

    def _training_state(self) -> dict[str, Any]:
        t = self._training
        numbers = {"tolerance": t.tolerance, "inner": t.inner, "passes": t.passes}
        return {"w": t.point.w, **numbers, "samples": len(t.candidates), "seed": self.seed_}

    def _load_training(self, state: dict[str, Any]) -> None:
        t = self._training
        if state["samples"] != len(t.candidates):
            raise ValueError(f"the state was learned from {state['samples']} samples, but there are {len(t.candidates)}")
        t.go(state["w"].to(t.point.w.device))
        t.tolerance, t.inner, t.space.passes, self.seed_ = state["tolerance"], state["inner"], state["passes"], state["seed"]

    # ---- using ---------------------------------------------------------------------------------------------------

    def prediction(self, candidates: Candidates) -> ClassFirst:
        """P_w, for scores, the prediction and the k best, on candidates that it fits."""
        super().prediction(candidates)  # refuses what does not fit
        return self._predictor(self.coef_).requires_grad_(False)

    def _conditional(self) -> ConditionalModel:
        return Posterior(self.coef_, self.joint_)
