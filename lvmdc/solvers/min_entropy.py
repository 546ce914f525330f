"""The slack of a max-margin min-entropy model, and the convex bound of it that the concave–convex procedure lowers.

K. Miller, M. P. Kumar, B. Packer, D. Goodman, D. Koller, Max-margin min-entropy models, AISTATS 2012.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions.marginal import first_maximum, neg_entropy, neg_entropy_gradient
from lvmdc.inference import own_class
from lvmdc.segments import segment_max, segment_sum
from lvmdc.solvers.linear import Risk, finite


@dataclass(frozen=True)
class MinEntropySlack:
    """ξ_i = max(0, max_y [Δ(y_i, y) + H_α(y_i) − H_α(y)]), with the V of `neg_entropy` max(0, max_y [Δ(y_i, y) + V(y)] − V(y_i)).

    Where h_i is known, w·Ψ(x_i, y_i, h_i) replaces V(y_i): the entropy of the one probability P_w(y_i, h_i | x_i).

    V is the difference of two convex functions of the scores, K and K − V:

        α > 1: K = 1/(α−1) · log Σ_h exp(α s),  K − V = 1/(α−1) · log Σ_h exp(s);   α < 1: the same two, in turn;   α = ∞: K = V = max_h s.

    Both grow without bound as α nears 1, and the bound with them. V itself does not, and K = κ · log Σ_h exp(max(α, 1) s) will do there
    with κ = 2 + log |H|: at α = 1 the second derivative of K − V along v is Σ_h p(h) (κ − 2 + m − s(h)) (v(h) − v̄)², with p ∝ exp(s), m and
    v̄ the means under p, and s(h) − m is never more than the entropy of p; near 1 no exception was found. The smaller of the two κ is taken.

    Args:
        known: (n,) packed row of the true h where it is known, −1 where not.
        cost: (n, K) Δ(y_i, y).
    """

    candidates: Candidates
    y: Tensor
    known: Tensor
    cost: Tensor
    alpha: float

    def each(self, scores: Tensor) -> Tensor:
        """(T, K) → (n,) in float64: ξ_i."""
        value = neg_entropy(scores, self.candidates.counts, self.alpha)
        own = finite(own_class(self.candidates, scores, self.y))[self.known.clamp(min=0)]
        truth = torch.where(self.known >= 0, own, value.gather(1, self.y[:, None])[:, 0])
        return ((value + self.cost).amax(dim=1) - truth).clamp(min=0)

    @cached_property
    def kappa(self) -> Tensor:
        """(n,): κ."""
        enough = 2 + self.candidates.counts.double().log()
        return enough if self.alpha == 1 else enough.clamp(max=1 / abs(self.alpha - 1))

    def convex(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """K and ∂K/∂s(h), (T, …) → (n, …), (T, …) in float64."""
        if math.isinf(self.alpha):
            scores, counts = scores.double(), self.candidates.counts
            return segment_max(scores, counts), first_maximum(scores, counts)
        return self._log_sum(scores, max(self.alpha, 1.0))

    def rest(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """K − V and its derivative, (T, …) → (n, …), (T, …) in float64; 0 for a class without candidates."""
        if math.isinf(self.alpha):
            return scores.new_zeros(len(self.y), *scores.shape[1:], dtype=torch.float64), torch.zeros_like(scores, dtype=torch.float64)
        if self._closed:
            value, gradient = self._log_sum(scores, min(self.alpha, 1.0))
            return value.nan_to_num(neginf=0.0), gradient
        (value, gradient), counts = self.convex(scores), self.candidates.counts
        value = (value - neg_entropy(scores, counts, self.alpha)).nan_to_num(nan=0.0)
        return value, gradient - neg_entropy_gradient(scores, counts, self.alpha)

    @cached_property
    def _closed(self) -> bool:
        """Whether κ is everywhere that of the first formulas."""
        return self.alpha != 1 and bool((self.kappa == 1 / abs(self.alpha - 1)).all())

    def _log_sum(self, scores: Tensor, order: float) -> tuple[Tensor, Tensor]:
        """κ · log Σ_h exp(order · s) and its derivative."""
        sample, counts = self.candidates.sample, self.candidates.counts
        kappa = self.kappa if scores.dim() == 1 else self.kappa[:, None]
        scaled = order * scores.double()
        peak = segment_max(scaled, counts).clamp(min=-1e300)  # −inf less itself would be NaN
        below = (scaled - peak[sample]).exp_()
        total = segment_sum(below, counts)
        share = (order * kappa / total).nan_to_num(posinf=0.0)
        return kappa * (total.log() + peak), below * share[sample]


class LinearisedSlack(Risk):
    """R = 1/n Σ_i max(0, max_y [Δ(y_i, y) + K(y) − L(y)] + (K − V)(y_i) − N(y_i)), convex in w: `MinEntropySlack` with its concave parts
    −(K − V)(y) and −K(y_i) replaced by their tangents −L and −N at the scores given: at least the slack, and equal to it
    there. For α = ∞ it is that of (14), with N the score of h*_i.

    Args:
        start: (T,) replaces ∂V(y_i)/∂s(h) at w = 0, where every h ties: the first belief about h. Then R is a bound for α = ∞ only.
    """

    def __init__(self, slack: MinEntropySlack, scores: Tensor, start: Tensor | None = None):
        self.slack, self.candidates, self.known = slack, slack.candidates, slack.known >= 0
        self._some_known, self._label = bool(self.known.any()), slack.y[self.candidates.sample, None]  # (T, 1)
        own = self._own(scores)
        rest, self._rest = slack.rest(scores)  # (T, K): slope of L
        self._offset = slack.cost - rest + self._sum(self._rest * finite(scores))  # (n, K)
        gradient = neg_entropy_gradient(own, self.candidates.counts, slack.alpha) if start is None else start.double()
        # Where h is known its score replaces V(y_i), and nothing of K.
        fixed = torch.zeros_like(own, dtype=torch.float64).index_fill(0, slack.known[self.known], 1.0)
        self._truth = torch.where(self.known[self.candidates.sample], fixed, self._own(self._rest) + gradient)  # (T,): slope of N
        convex = slack.convex(own)[0]
        self._constant = torch.where(self.known, 0.0, convex - self._sum(self._truth * finite(own)))  # (n,)

    def value(self, scores: Tensor) -> float:
        return float(self._pieces(scores, *self._linear(scores))[0].clamp(min=0).mean())

    def weights(self, scores: Tensor) -> Tensor:
        return self.plane(scores)[1]

    def plane(self, scores: Tensor) -> tuple[float, Tensor]:
        worst, classes, slope, truth_slope = self._pieces(scores, *self._linear(scores))
        column = classes[self.candidates.sample, None]
        # Only the class of each sample's maximum has a slope.
        active = (worst > 0)[self.candidates.sample].double() / len(worst)
        weights = torch.zeros(scores.shape, dtype=torch.float64, device=scores.device)
        weights.scatter_(1, column, active[:, None] * (slope - self._rest).gather(1, column))
        weights.scatter_add_(1, self._label, (active * (truth_slope - self._truth))[:, None])
        return float(worst.clamp(min=0).mean()), weights

    def along(self, scores: Tensor, rise: Tensor) -> Callable[[float], float]:
        """The slope of R at each step along a line of scores: that of `weights`, for less, since the tangents are linear in the step."""
        (at, truth_at), (by, truth_by) = self._linear(scores), self._linear(rise)
        by, truth_by = by - self._offset, truth_by + self._constant
        own_rise = self._own(rise)

        def slope(step: float) -> float:
            worst, classes, first, second = self._pieces(scores + step * rise, at + step * by, truth_at + step * truth_by)
            total = (self._sum(first * rise) + by).gather(1, classes[:, None])[:, 0] + self._sum(second * own_rise) + truth_by
            return float((total * (worst > 0)).mean())

        return slope

    def _pieces(self, scores: Tensor, linear: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(n,), (n,): the maximum over y and its class; (T, K), (T,): ∂K(y)/∂s(h) and ∂(K − V)(y_i)/∂s(h)."""
        convex, slope = self.slack.convex(scores)
        rest, truth_slope = self.slack.rest(self._own(scores))
        if self._some_known:
            rest = rest.masked_fill(self.known, 0.0)
            truth_slope = truth_slope.masked_fill(self.known[self.candidates.sample], 0.0)
        worst, classes = (convex + linear).max(dim=1)
        return worst + rest + truth, classes, slope, truth_slope

    def _linear(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """(n, K), (n,): Δ − L and −N."""
        seen = finite(scores)
        return self._offset - self._sum(self._rest * seen), -self._sum(self._truth * self._own(seen)) - self._constant

    def _own(self, values: Tensor) -> Tensor:
        return values.gather(1, self._label)[:, 0]

    def _sum(self, values: Tensor) -> Tensor:
        return segment_sum(values, self.candidates.counts)
