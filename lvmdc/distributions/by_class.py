"""Predictions that choose the class by all of its candidates, then the best candidate of the class."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from lvmdc import inference
from lvmdc.candidates import Candidates
from lvmdc.distributions.conditional import ConditionalModel
from lvmdc.distributions.prediction import LinearPrediction
from lvmdc.distributions.renyi import neg_entropy
from lvmdc.joint import JointFeatureMap
from lvmdc.segments import segment_logsumexp, segment_max


class ClassFirst(LinearPrediction):
    """y(w) = argmax_y V(y), then h(w) = argmax_h w·Ψ(x, y(w), h). A subclass says how V(y) follows from the scores of the class.

    >>> class Mean(ClassFirst):
    ...     def class_values(self, candidates, scores):
    ...         return scores.mean(dim=0, keepdim=True)
    >>> Mean(torch.tensor([[2.0, 0.0], [1.1, 1.2]])).predict(Candidates(torch.eye(2), [2]))  # class 0 has the best one alone
    (tensor([1]), tensor([1]))
    """

    @abstractmethod
    def class_values(self, candidates: Candidates, scores: Tensor) -> Tensor:
        """(T, K) → (n, K): V(y), −inf where a class has no candidate."""

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        y, rows = inference.best(candidates, self.ranking(candidates, self.scores(candidates)))
        return y, candidates.index(rows)

    def score(self, candidates: Candidates) -> Tensor:
        """(n,): V of the class that is predicted."""
        return self.class_values(candidates, self.scores(candidates)).amax(dim=1)

    def top_k(self, candidates: Candidates, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k best (y, h) of each sample by `ranking`, best first; see `inference.top_k`."""
        return inference.top_k(candidates, self.ranking(candidates, self.scores(candidates)), k)

    def ranking(self, candidates: Candidates, scores: Tensor) -> Tensor:
        """(T, K) → (T, K): V(y) less what h lacks to the best score of its class, of which the prediction is the argmax."""
        scores = scores.double()
        short = scores - segment_max(scores, candidates.counts)[candidates.sample]
        value = self.class_values(candidates, scores).double()[candidates.sample]
        return (value + short).masked_fill(scores == -torch.inf, -torch.inf)


class MarginalPrediction(ClassFirst):
    """The class of highest P_w(y | x) = Σ_h P_w(y, h | x), P_w(y, h | x) ∝ exp(w·Ψ(x, y, h)): V(y) = log Σ_h exp(w·Ψ(x, y, h)).

    >>> w = torch.tensor([[2.0, 0.0], [1.9, 1.9]])  # the best score is of class 0, but both candidates speak for class 1
    >>> MarginalPrediction(w).predict(Candidates(torch.eye(2), [2]))
    (tensor([1]), tensor([0]))
    """

    def class_values(self, candidates: Candidates, scores: Tensor) -> Tensor:
        return segment_logsumexp(scores.double(), candidates.counts)


class MinEntropyPrediction(ClassFirst):
    """The class of least Rényi entropy H_α of P_w(y, ·| x): V(y) = log Z − H_α(y), see `neg_entropy`. α = ∞ is argmax w·Ψ(x, y, h).

    >>> w = torch.tensor([[2.0, 0.0], [1.9, 1.9]])
    >>> MinEntropyPrediction(w, alpha=1.0).predict(Candidates(torch.eye(2), [2]))[0]  # V = 1.76 and 1.9
    tensor([1])
    >>> MinEntropyPrediction(w, alpha=math.inf).predict(Candidates(torch.eye(2), [2]))[0]
    tensor([0])
    """

    def __init__(self, w: Tensor, joint: JointFeatureMap | None = None, alpha: float = math.inf):
        super().__init__(w, joint)
        self.alpha = alpha

    def class_values(self, candidates: Candidates, scores: Tensor) -> Tensor:
        return neg_entropy(scores, candidates.counts, self.alpha)


class Posterior(ConditionalModel):
    """P_w(h | x, y) ∝ π(h | x, y) exp(w·Ψ(x, y, h)): what a log-linear P_w believes of h once y is known. Without π if not `weighted`.

    >>> from lvmdc.joint import ClassBlocks
    >>> Posterior(torch.tensor([0.0, 1.0986]), ClassBlocks(1))(Candidates(torch.eye(2), [2]), [0]).p
    tensor([0.2500, 0.7500])
    """

    def __init__(self, w: Tensor, joint: JointFeatureMap, weighted: bool = True):
        super().__init__()
        self.w, self.joint, self.weighted = w, joint, weighted

    def log_prob(self, candidates: Candidates, y: Tensor, scores: Tensor | None = None) -> Tensor:
        return super().log_prob(candidates if self.weighted else candidates.with_prior(None), y, scores)

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        return self.joint.own_scores(candidates, self.w.flatten(), y)
