"""Scores as a linear map of w, and what is minimised over them: ½‖w‖² + C·R, R a function of the scores alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap, transposed_product
from lvmdc.objective import half_square
from lvmdc.solvers.w_block import Point


class Risk(Protocol):
    """A mean over samples of functions of their scores."""

    def value(self, scores: Tensor) -> float:
        """R, of scores (T, K)."""

    def weights(self, scores: Tensor) -> Tensor:
        """(T, K) in float64: a subgradient of R in the scores."""

    def plane(self, scores: Tensor) -> tuple[float, Tensor]:
        """Both."""

    def along(self, scores: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope of R at each step along the line of scores + step·rise, in float64."""


class LinearScores:
    """w ↦ the scores w·Ψ(x, y, h) of every (y, h), and its transpose, which takes gradients in the scores to gradients in w.

    Either way costs one pass over the features, the unit that solvers are measured in.

    >>> space = LinearScores(Candidates(torch.eye(2), [2]), ClassBlocks(1))
    >>> space.at(torch.tensor([3.0, 4.0])).scores.flatten(), space.transpose(torch.tensor([[0.5], [2.0]]))
    (tensor([3., 4.]), tensor([0.5000, 2.0000], dtype=torch.float64))
    """

    def __init__(self, candidates: Candidates, joint: JointFeatureMap):
        self.candidates, self.joint = candidates, joint
        self.passes = 0

    @cached_property
    def size(self) -> int:
        """D, the length of w."""
        return self.joint.size(self.candidates)

    def origin(self) -> Point:
        """w = 0, which costs no pass."""
        nothing = torch.zeros(self.size, dtype=torch.float64, device=self.candidates.device)
        return Point(nothing, self.joint.scores_at_origin(self.candidates))

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
        # The sum over a selection would gather every row once a class; in class blocks it is one matrix product.
        return transposed_product(self.candidates.features, weights).flatten()


class SmoothRisk:
    """A `Risk` of which `value` and `weights` are all there is to say.

    >>> class Mean(SmoothRisk):
    ...     def value(self, scores): return float(scores.mean())
    ...     def weights(self, scores): return torch.full_like(scores, 1 / scores.numel())
    >>> Mean().along(torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))(0.5)
    2.0
    """

    def value(self, scores: Tensor) -> float:
        raise NotImplementedError

    def weights(self, scores: Tensor) -> Tensor:
        raise NotImplementedError

    def plane(self, scores: Tensor) -> tuple[float, Tensor]:
        return self.value(scores), self.weights(scores)

    def along(self, scores: Tensor, rise: Tensor) -> Callable[[float], float]:
        return lambda step: inner(self.weights(scores + step * rise), rise)


@dataclass(frozen=True)
class Regularised:
    """½‖w‖² + C·R(w).

    >>> class Mean(SmoothRisk):
    ...     def value(self, scores): return float(scores.mean())
    ...     def weights(self, scores): return torch.full_like(scores, 1 / scores.numel())
    >>> problem = Regularised(LinearScores(Candidates(torch.eye(2), [2]), ClassBlocks(1)), Mean(), C=4.0)
    >>> problem.value(problem.space.at(torch.tensor([1.0, 1.0]).double())), problem.gradient(problem.space.origin())
    (5.0, tensor([2., 2.], dtype=torch.float64))
    """

    space: LinearScores
    risk: Risk
    C: float

    def value(self, point: Point) -> float:
        return half_square(point.w) + self.C * self.risk.value(point.scores)

    def gradient(self, point: Point) -> Tensor:
        """(D,): a subgradient."""
        return point.w + self.C * self.space.transpose(self.risk.weights(point.scores))

    def along(self, start: Point, direction: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope at each step along a line of w, whose scores rise by `rise`; it costs no pass."""
        constant, bend, slope = float(direction @ start.w), float(direction @ direction), self.risk.along(start.scores, rise)
        return lambda step: constant + step * bend + self.C * slope(step)


def inner(weights: Tensor, scores: Tensor) -> float:
    """Σ weight·score in float64; what a class lacks, of score −inf and weight 0, counts for nothing.

    >>> inner(torch.tensor([2.0, 0.0]), torch.tensor([3.0, -torch.inf]))
    6.0
    """
    return float((weights.double() * finite(scores)).sum())


def finite(scores: Tensor) -> Tensor:
    """The scores in float64, 0 where a class lacks the candidate.

    >>> finite(torch.tensor([3.0, -torch.inf]))
    tensor([3., 0.], dtype=torch.float64)
    """
    return scores.double().masked_fill(scores == -torch.inf, 0.0)
