"""What stands for the truth in the convex problem (14): Ψ(x_i, y_i, h*_i)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.inference import own_class
from lvmdc.segments import segment_sum

if TYPE_CHECKING:
    from lvmdc.solvers.hinge import StructuredHinge


class Truth:
    """One candidate h*_i for each sample, or, as some starts have it, a mixture of its candidates.

    Args:
        weights: (T,) how much of each candidate the truth holds; sums to one over each sample.

    >>> from lvmdc import Candidates
    >>> from lvmdc.joint import ClassBlocks
    >>> from lvmdc.solvers.hinge import StructuredHinge
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
