"""The likelihood of y under P_w(y, h | x) ∝ exp(w·Ψ(x, y, h)), and the bound of it that the M step lowers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.inference import own_class
from lvmdc.segments import segment_log_softmax, segment_logsumexp, segment_softmax
from lvmdc.solvers.linear import SmoothRisk, finite


@dataclass(frozen=True)
class Likelihood:
    """−log P_w(y_i | x_i), and where h_i is known −log P_w(y_i, h_i | x_i).

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.

    >>> c, scores = Candidates(torch.zeros(2, 1), [2]), torch.zeros(2, 3)
    >>> for known in (-1, 1):  # 1 of 3 classes, 1 of 6 pairs
    ...     print(round(float(Likelihood(c, torch.tensor([0]), torch.tensor([known])).each(scores).exp()), 4))
    3.0
    6.0
    """

    candidates: Candidates
    y: Tensor
    known: Tensor

    def each(self, scores: Tensor) -> Tensor:
        """(T, K) → (n,) in float64."""
        own = own_class(self.candidates, scores, self.y).double()
        truth = segment_logsumexp(own, self.candidates.counts)
        truth = torch.where(self.known >= 0, own[self.known.clamp(min=0)], truth)
        return log_normaliser(self.candidates, scores) - truth


@dataclass(frozen=True)
class ExpectedLikelihood(SmoothRisk):
    """R = 1/n Σ_i Σ_h p_i(h) · (log p_i(h) − log P_w(y_i, h | x_i)): bounds the mean of −log P_w(y_i | x_i), and meets it where p_i is the
    posterior. Convex in w.

    >>> c = Candidates(torch.zeros(2, 1), [2])
    >>> risk = ExpectedLikelihood(c, torch.tensor([0]), torch.tensor([0.25, 0.75]))
    >>> round(risk.value(torch.zeros(2, 1)), 4), risk.weights(torch.zeros(2, 1)).flatten().tolist()
    (0.1308, [0.25, -0.25])
    """

    candidates: Candidates
    y: Tensor
    p: Tensor

    def value(self, scores: Tensor) -> float:
        p = self.p.double()
        truth = (p * finite(own_class(self.candidates, scores, self.y))).sum() + torch.special.entr(p).sum()
        return float(log_normaliser(self.candidates, scores).mean() - truth / len(self.y))

    def weights(self, scores: Tensor) -> Tensor:
        scores = scores.double()
        by_candidate = scores.logsumexp(dim=1)  # (T,): over classes
        joint = (segment_log_softmax(by_candidate, self.candidates.counts) - by_candidate)[:, None] + scores
        index = self.y[self.candidates.sample, None]
        # −inf less itself, where no class has the candidate, is NaN: it has no probability.
        return joint.exp().nan_to_num(nan=0.0).scatter_add(1, index, -self.p.double()[:, None]) / len(self.y)


def posterior(candidates: Candidates, scores: Tensor, y: Tensor, known: Tensor) -> Tensor:
    """(T, K) → (T,) in float64: P_w(h | x_i, y_i), a delta where h is known. The E step.

    >>> posterior(Candidates(torch.zeros(3, 1), [2, 1]), torch.zeros(3, 2), torch.tensor([0, 1]), torch.tensor([-1, -1]))
    tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    p = segment_softmax(own_class(candidates, scores, y).double(), candidates.counts)
    fixed = torch.zeros_like(p).index_fill(0, known[known >= 0], 1.0)
    return torch.where((known >= 0)[candidates.sample], fixed, p)


def log_normaliser(candidates: Candidates, scores: Tensor) -> Tensor:
    """(T, K) → (n,) in float64: log Z = log Σ_{y,h} exp(w·Ψ(x, y, h)).

    >>> log_normaliser(Candidates(torch.zeros(2, 1), [2]), torch.zeros(2, 2)).exp()
    tensor([4.], dtype=torch.float64)
    """
    return segment_logsumexp(scores.double().logsumexp(dim=1), candidates.counts)
