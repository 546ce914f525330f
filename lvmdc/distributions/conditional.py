"""P_θ, the conditional distribution of the latent variable in training.

P_θ(h | x, y) ∝ π(h | x, y) exp(score(h)): the prior π of the candidates multiplies what any model says. Without a prior
it is the paper's (5).
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.distributions.on_samples import Conditional
from lvmdc.distributions.prediction import module_scores
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.inference import own_class
from lvmdc.segments import segment_log_softmax


class ConditionalModel(nn.Module, ABC):
    """P_θ(h | x, y): the belief about h when x and y are known. A subclass gives scores; `log_prob` adds the prior of the candidates and
    normalises in log space.

    >>> class Bright(ConditionalModel):
    ...     def scores(self, candidates, y):
    ...         return candidates.features.sum(dim=1)
    >>> Bright()(Candidates(torch.zeros(2, 1), [2]), [0]).p
    tensor([0.5000, 0.5000])
    """

    @abstractmethod
    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        """(T,): θ·Φ(x_i, y_i, h) or another score; −inf where class y_i has no such candidate."""

    @property
    def linear(self) -> "LogLinear | None":
        """The model in whose θ the scores are linear, where they are not −inf; None if they are not."""
        return None

    def log_prob(self, candidates: Candidates, y: Tensor, scores: Tensor | None = None) -> Tensor:
        """(T,): log P_θ(h | x_i, y_i) (5), with the prior, from `scores` if given."""
        scores = self.scores(candidates, y) if scores is None else scores
        log_p = segment_log_softmax(weighted(scores, candidates.log_prior(y)), candidates.counts)
        if bool(log_p.isnan().any()):
            i = int(candidates.sample[log_p.isnan()][0])
            raise ValueError(
                f"scores must be numbers, and not −inf for all candidates of a sample, but they are for sample {i}, class {int(y[i])}"
            )
        return log_p

    def forward(self, candidates: Candidates, y: ArrayLike) -> Conditional:
        y = candidates.outputs(y)
        return Conditional(candidates, y, self.log_prob(candidates, y).exp())


class LogLinear(ConditionalModel):
    """exp(θ·Φ(x, y, h)) / Z (5), with the joint feature map Φ on the candidates' `phi`, default class blocks.

    >>> p_theta = LogLinear(torch.tensor([[0.0, 1.0986]]))
    >>> p_theta(Candidates(torch.eye(2), [2]), [0]).p.detach()
    tensor([0.2500, 0.7500])
    """

    def __init__(self, theta: Tensor, joint: JointFeatureMap | None = None):
        super().__init__()
        self.joint = ClassBlocks(len(theta)) if joint is None else joint
        self.theta = nn.Parameter(theta.detach().clone())

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        return self.joint.own_scores(candidates.for_phi(), self.theta.flatten(), y)

    @property
    def linear(self) -> "LogLinear":
        return self


class NeuralConditional(ConditionalModel):
    """Scores by any module that maps the features of Φ (T, d') to class scores (T, K), of which the column y_i is taken.

    >>> NeuralConditional(torch.nn.Linear(2, 3))(Candidates(torch.eye(2), [2]), [1]).p.shape
    torch.Size([2])
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        return own_class(candidates, module_scores(self.module, candidates.for_phi()), y)


class Uniform(ConditionalModel):
    """Equal probability for every candidate of class y: P_θ at θ = 0. With a prior it is the prior.

    >>> Uniform()(Candidates(torch.eye(2), [2]), [0]).p
    tensor([0.5000, 0.5000])
    """

    def __init__(self, joint: JointFeatureMap | None = None):
        super().__init__()
        self.joint = joint

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        zeros = torch.zeros(candidates.n_candidates, device=candidates.device, dtype=score_dtype(candidates))
        return zeros if self.joint is None else zeros.masked_fill(~self.joint.has(candidates, y), -torch.inf)


def weighted(scores: Tensor, log_prior: Tensor | None) -> Tensor:
    """(T,): score(h) + log π(h | x, y) in the precision of the scores; None: π is uniform.

    >>> weighted(torch.zeros(2), torch.tensor([0.0, -2.0]))
    tensor([ 0., -2.])
    """
    return scores if log_prior is None else scores + log_prior.to(scores.dtype)


def score_dtype(candidates: Candidates) -> torch.dtype:
    """The precision of scores and probabilities: that of the features, float32 at least.

    >>> score_dtype(Candidates(torch.eye(2, dtype=torch.float16), [2]))
    torch.float32
    """
    return torch.float64 if candidates.features.dtype == torch.float64 else torch.float32
