"""The likelihood of y under P_w(y, h | x) ∝ π'(h | x, y) exp(w·Ψ(x, y, h)), and the bound of it that the M step lowers.

π' is the prior of h, scaled as `class_prior` says; 1 without a prior.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import weighted
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import own_class
from lvmdc.segments import segment_log_softmax, segment_logsumexp, segment_max, segment_softmax, segment_sum
from lvmdc.solvers.linear import Risk, finite


def class_prior(candidates: Candidates, joint: JointFeatureMap) -> Tensor | None:
    """(T, K) in float64: log π'(h | x, y), of mean weight one over the candidates that class y has in a sample; None where π is uniform.

    Scaled like this for each sample and class, π says which h is likely, and nothing of y: at w = 0 a class is as likely as without it.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> class_prior(Candidates(torch.eye(2), [2], prior=[[0.0, 7.0], [1.0986, 7.0]]), ClassBlocks(2)).exp().round(decimals=2)
    tensor([[0.5000, 1.0000],
            [1.5000, 1.0000]], dtype=torch.float64)
    """
    if candidates.prior is None:
        return None
    there = joint.scores_at_origin(candidates) > -torch.inf  # (T, K)
    candidates.check_prior(there.shape[1])
    prior = candidates.prior.double()
    prior = (prior if prior.dim() == 2 else prior[:, None]).expand(there.shape).masked_fill(~there, -torch.inf)
    peak = segment_max(prior, candidates.counts)
    below = prior - peak.masked_fill(peak == -torch.inf, 0.0)[candidates.sample]
    mean = segment_sum(below.exp(), candidates.counts) / segment_sum(there.double(), candidates.counts).clamp(min=1)  # (n, K)
    return torch.where(there, below - mean.log()[candidates.sample], 0.0)


@dataclass(frozen=True)
class Likelihood:
    """−log P_w(y_i | x_i), and where h_i is known −log P_w(y_i, h_i | x_i).

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.
        log_prior: (T, K) log π'(h | x, y), see `class_prior`; None where π is uniform.
    """

    candidates: Candidates
    y: Tensor
    known: Tensor
    log_prior: Tensor | None = None

    def each(self, scores: Tensor) -> Tensor:
        """(T, K) → (n,) in float64."""
        scores = weighted(scores.double(), self.log_prior)
        own = own_class(self.candidates, scores, self.y).double()
        truth = segment_logsumexp(own, self.candidates.counts)
        truth = torch.where(self.known >= 0, own[self.known.clamp(min=0)], truth)
        return log_normaliser(self.candidates, scores) - truth


@dataclass(frozen=True)
class ExpectedLikelihood(Risk):
    """R = 1/n Σ_i Σ_h p_i(h) · (log p_i(h) − log P_w(y_i, h | x_i)), convex in w: at least the mean of −log P_w(y_i | x_i), and
    equal to it where p_i is the posterior.
    """

    candidates: Candidates
    y: Tensor
    p: Tensor
    log_prior: Tensor | None = None

    def value(self, scores: Tensor) -> float:
        p, scores = self.p.double(), weighted(scores.double(), self.log_prior)
        truth = (p * finite(own_class(self.candidates, scores, self.y))).sum() + torch.special.entr(p).sum()
        return float(log_normaliser(self.candidates, scores).mean() - truth / len(self.y))

    def weights(self, scores: Tensor) -> Tensor:
        scores = weighted(scores.double(), self.log_prior)
        by_candidate = scores.logsumexp(dim=1)  # (T,): over classes
        joint = (segment_log_softmax(by_candidate, self.candidates.counts) - by_candidate)[:, None] + scores
        index = self.y[self.candidates.sample, None]
        # −inf less itself, where no class has the candidate, is NaN: it has no probability.
        return joint.exp().nan_to_num(nan=0.0).scatter_add(1, index, -self.p.double()[:, None]) / len(self.y)


def posterior(candidates: Candidates, scores: Tensor, y: Tensor, known: Tensor, log_prior: Tensor | None = None) -> Tensor:
    """(T, K) → (T,) in float64: P_w(h | x_i, y_i), a delta where h is known. The E step. `log_prior` (T, K) as in `Likelihood`.

    >>> posterior(Candidates(torch.zeros(3, 1), [2, 1]), torch.zeros(3, 2), torch.tensor([0, 1]), torch.tensor([-1, -1]))
    tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    p = segment_softmax(own_class(candidates, weighted(scores.double(), log_prior), y), candidates.counts)
    fixed = torch.zeros_like(p).index_fill(0, known[known >= 0], 1.0)
    return torch.where((known >= 0)[candidates.sample], fixed, p)


def log_normaliser(candidates: Candidates, scores: Tensor) -> Tensor:
    """(T, K) → (n,) in float64: log Z = log Σ_{y,h} exp(w·Ψ(x, y, h))."""
    return segment_logsumexp(scores.double().logsumexp(dim=1), candidates.counts)
