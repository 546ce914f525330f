"""The w block on one training set: problem (13), its convex step (14), and what every solver of (14) shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap, transposed_product
from lvmdc.inference import best, best_of_class, best_value, own_class
from lvmdc.objective import half_squares, truth_score
from lvmdc.segments import segment_sum

ROUNDING = 1e-9  # float64 arithmetic is exact to about this share of the objective


@dataclass(frozen=True)
class Point:
    """A w (D,) in float64 with the scores (T, K) that it gives, so that they are computed once."""

    w: Tensor
    scores: Tensor

    def towards(self, other: Point, step: float) -> Point:
        """The point at `step` of the way to another: scores are linear in w, so this costs no pass.

        >>> Point(torch.zeros(1), torch.zeros(1, 1)).towards(Point(torch.ones(1), torch.ones(1, 1)), 0.25).w
        tensor([0.2500])
        """
        # Not torch.lerp: −inf scores of candidates that a class lacks must stay −inf.
        scores = self.scores * (1 - step) + other.scores * step if 0 < step < 1 else (self, other)[int(step)].scores
        return Point(self.w * (1 - step) + other.w * step, scores)


class LinearScores:
    """w ↦ the scores w·Ψ(x, y, h) of every (y, h), and its transpose, which maps gradients in the scores to gradients in w.

    Either way costs one pass over the features, the unit in which the cost of solvers is measured.
    """

    def __init__(self, candidates: Candidates, joint: JointFeatureMap):
        self.candidates, self.joint = candidates, joint
        self.passes: float = 0  # scoring a few samples is a fraction of one

    @cached_property
    def n_classes(self) -> int:
        """K, the number of columns of scores."""
        return self._at_origin.shape[1]

    @cached_property
    def size(self) -> int:
        """D, the length of w."""
        return self.joint.size(self.candidates)

    @cached_property
    def _at_origin(self) -> Tensor:
        return self.joint.scores_at_origin(self.candidates)

    def origin(self) -> Point:
        """w = 0, which costs no pass."""
        return Point(torch.zeros(self.size, dtype=torch.float64, device=self.candidates.device), self._at_origin)

    def at(self, w: Tensor) -> Point:
        """w with its scores."""
        self.passes += 1
        return Point(w, self.joint.scores(self.candidates, w))

    def transpose(self, weights: Tensor) -> Tensor:
        """(T, K) → (D,) in float64: Σ weight Ψ(x, y, h) over all (y, h)."""
        self.passes += 1
        if not isinstance(self.joint, ClassBlocks):
            rows, y = weights.nonzero(as_tuple=True)
            return self.joint.sum(self.candidates, y, rows, weights[rows, y].double())
        # The sum over a selection would gather every row once per class; in class blocks it is one matrix product.
        return transposed_product(self.candidates.features, weights).flatten()


class StructuredHinge(LinearScores):
    """½‖w‖² + C/n Σ_i ξ_i (13) over w, for samples (x_i, y_i) and an expected loss Δ_i(y, h; θ).

    `weight` (n,) multiplies the slack of each sample in self-paced learning; None: all weights are 1.

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.
        limit: bytes that solvers may use for copies of features.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), 10.0)
    >>> hinge.value(hinge.origin(), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    10.0
    """

    def __init__(
        self, candidates: Candidates, y: Tensor, joint: JointFeatureMap, C: float, known: Tensor | None = None, limit: int | None = None
    ):
        super().__init__(candidates, joint)
        self.y, self.C, self.limit = y, C, limit
        self.known = torch.full_like(y, -1) if known is None else known
        self.weight: Tensor | None = None
        self._kept: dict[str, tuple[tuple[object, ...], float]] = {}  # see `_once`

    @property
    def weights(self) -> Tensor:
        """(n,) in float64: the weight of each sample."""
        ones = torch.ones(len(self.y), dtype=torch.float64, device=self.y.device)
        return ones if self.weight is None else self.weight.to(ones)

    @cached_property
    def y_on_host(self) -> np.ndarray:
        """`y`, as the loops on the CPU read it."""
        return self.y.cpu().numpy()

    @property
    def weights_on_host(self) -> np.ndarray:
        """`weights`, as the loops on the CPU read them."""
        return np.ones(len(self.y)) if self.weight is None else self.weights.cpu().numpy()

    def mean(self, values: Tensor) -> float:
        """Σ_i v_i values_i / n in float64, v the weights of the samples."""
        return float(self._mean(values))

    def _mean(self, values: Tensor) -> Tensor:
        """`mean` as a tensor: every number that is read makes the host wait for the device."""
        values = values.double()
        return distributed.mean(self.candidates, values if self.weight is None else values * self.weights)

    def mean_psi(self, y: Tensor, rows: Tensor) -> Tensor:
        """(D,): the weighted mean of Ψ over a selection of one (y, h) per sample."""
        c = self.candidates
        return distributed.total(c, self.joint.sum(c, y, rows, self.weight)) / distributed.n_samples(c)

    # ---- (13) ----------------------------------------------------------------------------------------------------

    def slack(self, scores: Tensor, expected_loss: Tensor) -> Tensor:
        """(n,): ξ_i (9)."""
        return best_value(self.candidates, scores + expected_loss) - self.truth_score(scores)

    def value(self, point: Point, expected_loss: Tensor) -> float:
        """The objective (13)."""

        def compute() -> float:
            return float(half_squares([point.w]) + self.C * self._mean(self.slack(point.scores, expected_loss)))

        return self._once("value", (point, expected_loss, self.weight, self.C), compute)

    def value_at_origin(self, expected_loss: Tensor) -> float:
        """(13) at w = 0, and (14) there for any h*."""
        asked = expected_loss, self.weight
        return self.C * self._once("origin", asked, lambda: self.mean(best_value(self.candidates, expected_loss)))

    def _once(self, name: str, asked: tuple[object, ...], compute: Callable[[], float]) -> float:
        """A number that is asked for several times is computed once: it is kept until it is asked for something else."""
        kept = self._kept.get(name)
        if kept is None or any(a is not b for a, b in zip(asked, kept[0], strict=True)):
            kept = self._kept[name] = asked, compute()
        return kept[1]

    def truth_score(self, scores: Tensor) -> Tensor:
        """(n,): max_h w·Ψ(x_i, y_i, h), the score of h where it is known."""
        return truth_score(self.candidates, scores, self.y, self.known)

    def impute(self, scores: Tensor) -> Tensor:
        """h*_i = argmax_h w·Ψ(x_i, y_i, h) as packed rows (n,), the known h where there is one."""
        return torch.where(self.known >= 0, self.known, best_of_class(self.candidates, scores, self.y))

    def violated(self, scores: Tensor, expected_loss: Tensor) -> tuple[Tensor, Tensor]:
        """The (y, h) of the first maximum of (9): classes (n,) and packed rows (n,)."""
        return best(self.candidates, scores + expected_loss)

    def has(self, rows: Tensor) -> Tensor:
        """(n, K): whether each class has the candidate at the sample's packed row (n,)."""
        return self._at_origin[rows] > -torch.inf

    # ---- (14) ----------------------------------------------------------------------------------------------------

    def convex_value(self, point: Point, expected_loss: Tensor, mean_psi: Tensor) -> float:
        """The objective of (14), where the mean of Ψ(x_i, y_i, h*_i) is `mean_psi` (D,)."""

        def compute() -> float:
            augmented = self._mean(best_value(self.candidates, point.scores + expected_loss))
            return float(half_squares([point.w]) + self.C * (augmented - point.w @ mean_psi))

        return self._once("convex value", (point, expected_loss, mean_psi, self.weight, self.C), compute)


class ImputedLatents:
    """h*_i, what (14) uses as the ground truth of h: one candidate of each sample, or, at some starts, a mixture of its candidates.

    Args:
        weights: (T,) the weight of each candidate; sums to one over each sample.
        rows: (n,) packed rows, where each sample has one candidate.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 0]), ClassBlocks(1), C=1.0)
    >>> ImputedLatents(hinge, torch.tensor([0.5, 0.5, 1.0])).rows, ImputedLatents(hinge, torch.tensor([0.0, 1.0, 1.0])).rows
    (None, tensor([1, 2]))
    >>> ImputedLatents(hinge, torch.tensor([0.5, 0.5, 1.0])).mean
    tensor([0.2500, 0.2500, 0.5000], dtype=torch.float64)
    """

    def __init__(self, hinge: StructuredHinge, weights: Tensor | None = None, rows: Tensor | None = None):
        self.hinge = hinge
        single = weights is not None and int((weights > 0).sum()) == len(hinge.candidates)
        if weights is not None and distributed.highest(hinge.candidates, float(not single)) == 0:  # on all ranks
            rows = (weights > 0).nonzero().flatten()
        self.rows, self.weights = rows, weights if rows is None else None

    @property
    def mixture(self) -> Tensor:
        """(T,): the weights, where the latents are a mixture."""
        assert self.weights is not None
        return self.weights

    @property
    def p(self) -> Tensor:
        """(T,) in float64: the weights in either case, as a distribution over the candidates of each sample."""
        if self.rows is None:
            return self.mixture
        c = self.hinge.candidates
        return torch.zeros(c.n_candidates, dtype=torch.float64, device=c.device).index_fill(0, self.rows, 1.0)

    def differs(self, other: ImputedLatents) -> float:
        """The share of all samples whose h* is another; 1 if either is a mixture."""
        if self.rows is None or other.rows is None:
            return 1.0
        return float(distributed.mean(self.hinge.candidates, self.rows.ne(other.rows)))

    @cached_property
    def mean(self) -> Tensor:
        """(D,): Σ_i v_i Ψ(x_i, y_i, h*_i) / n, v_i the weight of the sample."""
        hinge, c = self.hinge, self.hinge.candidates
        if self.rows is not None:
            return hinge.mean_psi(hinge.y, self.rows)
        used = self.mixture.nonzero().flatten()
        sample = c.sample[used]
        weight = self.mixture[used].double()
        if hinge.weight is not None:
            weight = weight * hinge.weight[sample]
        return distributed.total(c, hinge.joint.sum(c, hinge.y[sample], used, weight)) / distributed.n_samples(c)

    @cached_property
    def rows_on_host(self) -> np.ndarray | None:
        """`rows`, as the loops on the CPU read them."""
        return None if self.rows is None else self.rows.cpu().numpy()

    @cached_property
    def mean_on_host(self) -> np.ndarray:
        """`mean`, as the loops on the CPU read it."""
        return self.mean.cpu().numpy()

    def vectors(self) -> tuple[Tensor, Tensor]:
        """(n, d'), (n,): Ψ of each sample's mixture as a vector in a block of w."""
        return self.hinge.joint.mixtures(self.hinge.candidates, self.hinge.y, self.mixture)

    def of(self, values: Tensor) -> Tensor:
        """(n,): of values (T, K), that of the sample's class at h*, or their mean over the mixture."""
        hinge, c = self.hinge, self.hinge.candidates
        if self.rows is not None:
            return values[self.rows, hinge.y]
        own = own_class(c, values, hinge.y)
        return segment_sum(torch.where(self.mixture > 0, own * self.mixture.to(own), 0.0), c.counts)


# ---- solvers of (14) ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solution:
    """The best point found, its objective in (14), and an upper bound of its distance to the optimum.

    `beyond` is a point to go on from where (14) was solved by its start, see `Progress`; None otherwise.
    """

    point: Point
    value: float
    gap: float
    beyond: Point | None = None


class ConvexSolver(ABC):
    """Solves (14), min_w ½‖w‖² + C/n Σ_i (max_{y,h} [w·Ψ(x_i, y, h) + Δ_i(y, h; θ)] − w·Ψ(x_i, y_i, h*_i)).

    What it keeps between calls helps with the next (14), of another h* or another θ.
    """

    mixes_scores = False  # whether the scores of a solution are mixed from those of other points, which adds rounding errors

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000):
        self.hinge, self.max_iter = hinge, max_iter

    @abstractmethod
    def solve(self, expected_loss: Tensor, latents: ImputedLatents, start: Point, tol: float, share: float = 0.0) -> Solution:
        """Lower (14) from `start` until at most `tol` above its optimum; never ends above `start`.

        Args:
            expected_loss: (T, K) Δ_i(y, h; θ).
            share: also stop when the gap is at most this share of what was gained since `start`.
        """

    def gap(self, expected_loss: Tensor, latents: ImputedLatents, point: Point) -> float:
        """An upper bound of the distance of `point` to the optimum of another (14), without a pass; infinite if there is none."""
        return float("inf")

    def state(self) -> dict[str, Any]:
        """What is kept between calls, as tensors and plain data."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027, nothing to restore
        """Restore from `state()`."""


class Progress:
    """One call of a solver of (14): its best point so far, the lower bound of the optimum, and when that is enough.

    Where h* is random, w = 0 may solve (14), though not (13): every h ties there. So `beyond` keeps, of the points that are looked at, the
    first with a lower (13) than w = 0, or that of the lowest (13) while there is none; nothing once (14) has fallen by more than rounding.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> latents = ImputedLatents(hinge, rows=torch.tensor([0, 1]))
    >>> progress = Progress(hinge, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), latents, hinge.origin())
    >>> for size in (9.0, 0.5, 0.6):
    ...     progress.look(hinge.at(torch.tensor([size, 0.0, 0.0, size], dtype=torch.float64)))
    >>> progress.beyond.w[0], progress.beyond_value
    (tensor(0.5000, dtype=torch.float64), 0.75)
    """

    def __init__(self, hinge: StructuredHinge, expected_loss: Tensor, latents: ImputedLatents, start: Point):
        self.hinge, self.expected_loss, self.latents, self.point = hinge, expected_loss, latents, start
        self.first = self.value = hinge.convex_value(start, expected_loss, latents.mean)
        self.lower = 0.0  # (14) is never negative: Δ ≥ 0
        self._rounding = rounding(start.scores)
        self.beyond: Point | None = None
        self.beyond_value, self._origin = float("inf"), hinge.value_at_origin(expected_loss)

    @property
    def gap(self) -> float:
        return self.value - self.lower

    def bound(self, dual: float) -> None:
        """Take a lower bound of the optimum."""
        self.lower = max(self.lower, dual)

    def take(self, point: Point, value: float) -> None:
        """Take a point, if its value of (14) is lower."""
        if value < self.value:
            self.point, self.value = point, value

    def look(self, point: Point, latent_value: float | None = None) -> None:
        """Consider a point as `beyond`; its (13) need not be computed where it is given."""
        if self.first - self.value > rounding(self.expected_loss) * self.first:
            self.beyond, self.beyond_value = None, -float("inf")
        if self.beyond_value < self._origin:
            return
        value = self.hinge.value(point, self.expected_loss) if latent_value is None else latent_value
        if value < self.beyond_value:
            self.beyond, self.beyond_value = point, value

    def enough(self, tol: float, share: float) -> bool:
        """Whether the gap is below tol, below that share of what was gained, or below rounding."""
        return self.gap <= max(tol, self._rounding * self.value, share * (self.first - self.value))

    def solution(self) -> Solution:
        return Solution(self.point, self.value, self.gap, self.beyond)


def rounding(scores: Tensor) -> float:
    """The share of the objective below which a gap is indistinguishable from rounding error: about 1e-7 where scores are in float32.

    >>> rounding(torch.zeros(1, dtype=torch.float64))
    1e-09
    """
    return max(ROUNDING, 2 * torch.finfo(scores.dtype).eps)
