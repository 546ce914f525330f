"""Predictions that choose the class by all of its candidates, as EM and M3E do; Rényi entropies of P_w(y, h | x) over h.

A. Rényi, On measures of entropy and information, Berkeley Symposium on Mathematical Statistics and Probability, 1961.
"""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from lvmdc import inference
from lvmdc.candidates import Candidates
from lvmdc.distributions.conditional import ConditionalModel
from lvmdc.distributions.prediction import LinearPrediction
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.segments import segment_logsumexp, segment_max, segment_softmax, segment_sum

SHANNON = 1e-6  # orders this near to 1 count as 1, where the general formula divides rounding errors by almost 0


def neg_entropy(scores: Tensor, counts: Tensor, alpha: float) -> Tensor:
    """V_α = log Z − H_α of each class of each sample: higher for a more certain class. (T, …) → (n, …), in float64.

    H_α = 1/(1−α) · log(Σ_h P^α / Σ_h P) is the entropy of the numbers P(h) = exp(s(h))/Z, which need not sum to one. Z is the same for all
    classes of a sample and cancels where they are compared, so it is omitted:

        V_α = 1/(α−1) · (log Σ_h exp(α s) − log Σ_h exp(s)),   V_1 = Σ_h p(h) s(h) with p ∝ exp(s),   V_∞ = max_h s(h).

    Never below the mean score, never above the highest, and rising in α. −inf for a class without candidates.

    >>> s, counts = torch.tensor([0.0, math.log(3.0)]), torch.tensor([2])
    >>> [round(float(neg_entropy(s, counts, alpha)), 4) for alpha in (0.5, 1.0, 2.0, math.inf)]
    [0.7625, 0.824, 0.9163, 1.0986]
    """
    peak, below = _below(scores, counts)
    if math.isinf(alpha):
        return peak
    if abs(alpha - 1) < SHANNON:
        # p·(s − peak) is 0, not NaN, where a class lacks the candidate.
        return peak + segment_sum(softmax(below, counts) * below.masked_fill(below == -torch.inf, 0), counts)
    # Below the peak both logarithms lie in 0..log |H| for every α, so that the division loses no digits.
    high, low = segment_logsumexp(alpha * below, counts), segment_logsumexp(below, counts)
    return peak + ((high - low) / (alpha - 1)).nan_to_num(nan=0.0)


def neg_entropy_gradient(scores: Tensor, counts: Tensor, alpha: float) -> Tensor:
    """∂V_α/∂s(h), which sums to one over h; for α = ∞, 1 at the first maximum. (T, …) → (T, …), in float64.

    >>> neg_entropy_gradient(torch.tensor([0.0, math.log(3.0)]), torch.tensor([2]), 2.0)
    tensor([-0.0500,  1.0500], dtype=torch.float64)
    """
    _, below = _below(scores, counts)
    if math.isinf(alpha):
        return first_maximum(below, counts)
    p = softmax(below, counts)
    if abs(alpha - 1) < SHANNON:
        finite = below.masked_fill(below == -torch.inf, 0)
        return p * (1 + finite - segment_sum(p * finite, counts).repeat_interleave(counts, dim=0))
    return (alpha * softmax(alpha * below, counts) - p) / (alpha - 1)


def softmax(values: Tensor, counts: Tensor) -> Tensor:
    """Probabilities over each sample's rows, column by column; none where a class has no candidate. (T, …) → (T, …)."""
    return segment_softmax(values, counts).nan_to_num(nan=0.0)


def first_maximum(values: Tensor, counts: Tensor) -> Tensor:
    """1 where each sample's maximum lies, the first one if several tie, column by column. (T, …) → (T, …)."""
    is_max = (values == segment_max(values, counts).repeat_interleave(counts, dim=0)) & (values > -torch.inf)
    # Counted down, so that the first row has the highest number; exact in float64 up to 2^53.
    place = torch.arange(len(values), 0, -1, device=values.device, dtype=torch.float64)
    place = is_max * (place if values.dim() == 1 else place[:, None])
    return (place == segment_max(place, counts).repeat_interleave(counts, dim=0)).to(values.dtype) * is_max


def _below(scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """(n, …), (T, …): each sample's highest score, −inf where a class has no candidate, and how far its rows lie below it."""
    scores = scores.double()
    peak = segment_max(scores, counts)
    return peak, scores - peak.masked_fill(peak == -torch.inf, 0).repeat_interleave(counts, dim=0)


class ClassFirst(LinearPrediction):
    """y(w) = argmax_y V(y), then h(w) = argmax_h w·Ψ(x, y(w), h). A subclass computes V(y) from the scores of the class.

    >>> class Mean(ClassFirst):
    ...     def class_values(self, candidates, scores):
    ...         return scores.mean(dim=0, keepdim=True)
    >>> Mean(torch.tensor([[2.0, 0.0], [1.1, 1.2]])).predict(Candidates(torch.eye(2), [2]))  # class 0 has the single best
    (tensor([1]), tensor([1]))
    """

    @abstractmethod
    def class_values(self, candidates: Candidates, scores: Tensor) -> Tensor:
        """(T, K) → (n, K): V(y), −inf where a class has no candidate."""

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        y, rows = inference.best(candidates, self.ranking(candidates, self.scores(candidates)))
        return y, candidates.index(rows)

    def top_k(self, candidates: Candidates, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k best (y, h) of each sample by `ranking`, best first; see `inference.top_k`."""
        return inference.top_k(candidates, self.ranking(candidates, self.scores(candidates)), k)

    def ranking(self, candidates: Candidates, scores: Tensor) -> Tensor:
        """(T, K) → (T, K): V(y) minus the gap of h to the best score of its class; the prediction is its argmax."""
        scores = scores.double()
        short = scores - segment_max(scores, candidates.counts)[candidates.sample]
        value = self.class_values(candidates, scores).double()[candidates.sample]
        return (value + short).masked_fill(scores == -torch.inf, -torch.inf)


class MarginalPrediction(ClassFirst):
    """The class of highest P_w(y | x) = Σ_h P_w(y, h | x), P_w(y, h | x) ∝ exp(w·Ψ(x, y, h)): V(y) = log Σ_h exp(w·Ψ(x, y, h)).

    >>> w = torch.tensor([[2.0, 0.0], [1.9, 1.9]])  # class 0 has the best score, class 1 the best sum
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
    """P_w(h | x, y) ∝ π(h | x, y) exp(w·Ψ(x, y, h)): the belief of a log-linear P_w about h when y is known. Without π if not `weighted`.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> Posterior(torch.tensor([0.0, 1.0986]), ClassBlocks(1))(Candidates(torch.eye(2), [2]), [0]).p
    tensor([0.2500, 0.7500])
    """

    def __init__(self, w: Tensor, joint: JointFeatureMap, weighted: bool = True):
        super().__init__()
        self.w, self.joint, self.weighted = w, joint, weighted

    def log_prob(self, candidates: Candidates, y: Tensor, scores: Tensor | None = None) -> Tensor:
        return super().log_prob(candidates if self.weighted else candidates.with_prior(None), y, scores)

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        return self.joint.own_scores(candidates, self.w.flatten().to(candidates.device), y)
