"""Distributions over (y, h) of given samples: what `diversity` and `dissimilarity` compare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.segments import segment_max, segment_sum


@dataclass(frozen=True)
class OnSamples(ABC):
    """A distribution over (y, h) for each sample of `candidates`.

    >>> isinstance(Delta(Candidates(torch.zeros(2, 1), [2]), torch.tensor([1]), torch.tensor([0])), OnSamples)
    True
    """

    candidates: Candidates

    @abstractmethod
    def table(self, n_classes: int) -> Tensor:
        """(T, K): the probability of every (y, h)."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """One more than the highest class with any probability."""


@dataclass(frozen=True)
class Delta(OnSamples):
    """All mass on one (y, h) per sample (4): classes y (n,) and candidate indices h (n,).

    >>> Delta(Candidates(torch.zeros(2, 1), [2]), torch.tensor([1]), torch.tensor([0])).table(2)
    tensor([[0., 1.],
            [0., 0.]])
    """

    y: Tensor
    h: Tensor

    @property
    def rows(self) -> Tensor:
        return self.candidates.rows(self.h)

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def table(self, n_classes: int) -> Tensor:
        table = torch.zeros(self.candidates.n_candidates, n_classes, device=self.y.device)
        table[self.rows, self.y] = 1
        return table


@dataclass(frozen=True)
class Conditional(OnSamples):
    """The class is known, the latent variable is not (6): classes y (n,), probabilities p (T,) over each sample's candidates.

    >>> Conditional(Candidates(torch.zeros(2, 1), [2]), torch.tensor([1]), torch.tensor([0.5, 0.5])).entropy()
    tensor([0.6931])
    """

    y: Tensor
    p: Tensor

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def table(self, n_classes: int) -> Tensor:
        table = self.p.new_zeros(self.candidates.n_candidates, n_classes)
        return table.scatter(1, self.y[self.candidates.sample, None], self.p[:, None])

    def entropy(self) -> Tensor:
        """(n,) Shannon entropy of h in nats."""
        # p log p is 0 at p = 0, where its derivative is infinite and would make that of the scores NaN.
        return segment_sum(torch.special.entr(self.p.masked_fill(self.p == 0, 1)), self.candidates.counts)


@dataclass(frozen=True)
class Joint(OnSamples):
    """Any distribution over (y, h): probabilities p (T, K) that sum to one over each sample.

    >>> Joint(Candidates(torch.zeros(2, 1), [2]), torch.full((2, 2), 0.25)).n_classes
    2
    """

    p: Tensor

    @classmethod
    def softmax(cls, candidates: Candidates, scores: Tensor, temperature: float = 1.0) -> Joint:
        """P_w(y, h | x) ∝ exp(score(y, h) / T) over all (y, h) of a sample, scores (T, K); −inf has none. T → 0 is the delta (4).

        >>> Joint.softmax(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[0.0, 0.0], [0.0, 1.0986]])).p
        tensor([[0.1667, 0.1667],
                [0.1667, 0.5000]])
        """
        below = scores / temperature
        peak = segment_max(below.detach().amax(dim=1), candidates.counts)
        mass = (below - peak[candidates.sample, None]).exp()
        return cls(candidates, mass / segment_sum(mass.sum(dim=1), candidates.counts)[candidates.sample, None])

    @property
    def n_classes(self) -> int:
        return self.p.shape[1]

    def table(self, n_classes: int) -> Tensor:
        return torch.nn.functional.pad(self.p, (0, n_classes - self.p.shape[1]))
