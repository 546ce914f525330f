"""½‖w‖² + C·R, R a function of the scores alone, which are linear in w."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.objective import half_square
from lvmdc.solvers.w_block import LinearScores, Point


class Risk(ABC):
    """R, a mean over samples of functions of their scores (T, K)."""

    @abstractmethod
    def value(self, scores: Tensor) -> float:
        """R."""

    @abstractmethod
    def weights(self, scores: Tensor) -> Tensor:
        """(T, K) in float64: a subgradient of R in the scores."""

    def plane(self, scores: Tensor) -> tuple[float, Tensor]:
        """Both."""
        return self.value(scores), self.weights(scores)

    def along(self, scores: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope of R at each step along the line of scores + step·rise, in float64."""
        return lambda step: inner(self.weights(scores + step * rise), rise)


@dataclass(frozen=True)
class Regularised:
    """½‖w‖² + C·R(w)."""

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
    """Σ weight·score in float64; candidates that a class lacks, of score −inf and weight 0, add nothing.

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
