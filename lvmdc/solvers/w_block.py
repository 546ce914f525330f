"""The w block: problem (13), its convex step (14), and what it takes as the ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import best, best_of_class, best_value, own_class
from lvmdc.objective import half_square, truth_score
from lvmdc.segments import segment_sum

# What stands for the truth in the convex problem (14): Ψ(x_i, y_i, h*_i).

if TYPE_CHECKING:
    pass


class Truth:
    """One candidate h*_i for each sample, or, as some starts have it, a mixture of its candidates.

    Args:
        weights: (T,) how much of each candidate the truth holds; sums to one over each sample.

    >>> from lvmdc import Candidates
    >>> from lvmdc.feature_maps import ClassBlocks
    >>> from lvmdc.solvers.w_block import StructuredHinge
    >>> hinge = StructuredHinge(Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 0]), ClassBlocks(1), C=1.0)
    >>> Truth(hinge, torch.tensor([0.5, 0.5, 1.0])).rows, Truth(hinge, torch.tensor([0.0, 1.0, 1.0])).rows
    (None, tensor([1, 2]))
    >>> Truth(hinge, torch.tensor([0.5, 0.5, 1.0])).mean
    tensor([0.2500, 0.2500, 0.5000], dtype=torch.float64)
    """

    def __init__(self, hinge: StructuredHinge, weights: Tensor | None = None, rows: Tensor | None = None):
        self.hinge = hinge
        single = weights is not None and int((weights > 0).sum()) == len(hinge.candidates)
        if weights is not None and distributed.highest(hinge.candidates, float(not single)) == 0:  # on all ranks
            rows = (weights > 0).nonzero().flatten()
        self.rows, self.weights = rows, weights if rows is None else None

    @property
    def p(self) -> Tensor:
        """(T,) in float64: the probability of each candidate, as a distribution over each sample's."""
        if self.weights is not None:
            return self.weights
        assert self.rows is not None
        c = self.hinge.candidates
        return torch.zeros(c.n_candidates, dtype=torch.float64, device=c.device).index_fill(0, self.rows, 1.0)

    def differs(self, other: Truth) -> float:
        """The share of the samples for which another h* stands; all of them if either is a mixture."""
        return 1.0 if self.rows is None or other.rows is None else float(self.rows.ne(other.rows).double().mean())

    @cached_property
    def mean(self) -> Tensor:
        """(D,): Σ_i v_i Ψ(x_i, y_i, h*_i) / n, v_i the weight of the sample."""
        hinge, c = self.hinge, self.hinge.candidates
        if self.rows is not None:
            return hinge.mean_psi(hinge.y, self.rows)
        assert self.weights is not None
        used = self.weights.nonzero().flatten()
        sample = c.sample[used]
        weight = self.weights[used].double()
        if hinge.weight is not None:
            weight = weight * hinge.weight[sample]
        return distributed.total(c, hinge.joint.sum(c, hinge.y[sample], used, weight)) / distributed.n_samples(c)

    def vectors(self) -> tuple[Tensor, Tensor]:
        """(n, d'), (n,): Ψ of each sample's mixture as a vector in a block of w."""
        assert self.weights is not None
        return self.hinge.joint.mixtures(self.hinge.candidates, self.hinge.y, self.weights)

    def of(self, values: Tensor) -> Tensor:
        """(n,): of values (T, K), that of the sample's class at its truth, or their mean over the mixture."""
        hinge, c = self.hinge, self.hinge.candidates
        if self.rows is not None:
            return values[self.rows, hinge.y]
        assert self.weights is not None
        own = own_class(c, values, hinge.y)
        return segment_sum(torch.where(self.weights > 0, own * self.weights.to(own), 0.0), c.counts)


# The w block on one training set: problem (13) and its convex step (14).


@dataclass(frozen=True)
class Point:
    """A w (D,) in float64 with the scores (T, K) it gives, so that nobody computes them twice.

    >>> Point(torch.zeros(2), torch.zeros(3, 1)).scores.shape
    torch.Size([3, 1])
    """

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


class StructuredHinge:
    """½‖w‖² + C/n Σ_i ξ_i (13) over w, for samples (x_i, y_i) and an expected loss Δ_i(y, h; θ).

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.

        limit: bytes for the vectors of planes, where they are kept apart from the candidates.

    `weight` (n,) multiplies the slack of each sample, as self-paced learning asks; None: all count alike.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), 10.0)
    >>> hinge.value(hinge.origin(), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    10.0
    """

    def __init__(
        self, candidates: Candidates, y: Tensor, joint: JointFeatureMap, C: float, known: Tensor | None = None, limit: int | None = None
    ):
        self.candidates, self.y, self.joint, self.C, self.limit = candidates, y, joint, C, limit
        self.known = torch.full_like(y, -1) if known is None else known
        self.weight: Tensor | None = None
        self.passes: float = 0  # of which the oracle of a few samples is a part

    @cached_property
    def n_classes(self) -> int:
        """K, as many as there are columns of scores."""
        return self._at_origin.shape[1]

    @cached_property
    def size(self) -> int:
        """D, the length of w."""
        return self.joint.size(self.candidates)

    def origin(self) -> Point:
        """w = 0, which costs no pass."""
        nothing = torch.zeros(self.size, dtype=torch.float64, device=self.candidates.device)
        return Point(nothing, self._at_origin)

    @cached_property
    def _at_origin(self) -> Tensor:
        return self.joint.scores_at_origin(self.candidates)

    def at(self, w: Tensor) -> Point:
        """Score every (y, h) with w: one pass over the features, the unit that solvers are measured in."""
        self.passes += 1
        return Point(w, self.joint.scores(self.candidates, w))

    @property
    def weights(self) -> Tensor:
        """(n,) in float64: how much each sample counts."""
        ones = torch.ones(len(self.y), dtype=torch.float64, device=self.y.device)
        return ones if self.weight is None else self.weight.to(ones)

    def mean(self, values: Tensor) -> float:
        """Σ_i v_i values_i / n in float64, v the weights of the samples."""
        values = values.double()
        return float(distributed.mean(self.candidates, values if self.weight is None else values * self.weights))

    def value_at_origin(self, expected_loss: Tensor) -> float:
        """(13), and (14) whatever h* is, at w = 0: all that learning starts from."""
        return self.C * self.mean(best_value(self.candidates, expected_loss))

    def slack(self, scores: Tensor, expected_loss: Tensor) -> Tensor:
        """(n,): ξ_i (9)."""
        return best_value(self.candidates, scores + expected_loss) - self.truth_score(scores)

    def value(self, point: Point, expected_loss: Tensor) -> float:
        """The objective (13)."""
        return half_square(point.w) + self.C * self.mean(self.slack(point.scores, expected_loss))

    def convex_value(self, point: Point, expected_loss: Tensor, truth: Tensor) -> float:
        """The objective of (14), where the truth is the mean of Ψ(x_i, y_i, h*_i), (D,)."""
        augmented = self.mean(best_value(self.candidates, point.scores + expected_loss))
        return half_square(point.w) + self.C * (augmented - float(point.w @ truth))

    def truth_score(self, scores: Tensor) -> Tensor:
        """(n,): w·Ψ(x_i, y_i, h*_i), max_h w·Ψ(x_i, y_i, h) where h is not known."""
        return truth_score(self.candidates, scores, self.y, self.known)

    def has(self, rows: Tensor) -> Tensor:
        """(n, K): whether each class has the candidate at the sample's packed row (n,)."""
        return self._at_origin[rows] > -torch.inf

    def impute(self, scores: Tensor) -> Tensor:
        """h*_i = argmax_h w·Ψ(x_i, y_i, h) as packed rows (n,), the known h where there is one."""
        return torch.where(self.known >= 0, self.known, best_of_class(self.candidates, scores, self.y))

    def violated(self, scores: Tensor, expected_loss: Tensor) -> tuple[Tensor, Tensor]:
        """The (y, h) of the first maximum of (9): classes (n,) and packed rows (n,)."""
        return best(self.candidates, scores + expected_loss)

    def mean_psi(self, y: Tensor, rows: Tensor) -> Tensor:
        """(D,) the mean over the samples of Ψ at a selection, one (y, h) for each."""
        c = self.candidates
        return distributed.total(c, self.joint.sum(c, y, rows, self.weight)) / distributed.n_samples(c)
