"""Distributions represented by draws, for latent sets that cannot be summed over.

Gradients are those of R. J. Williams, Simple statistical gradient-following algorithms, Machine Learning 8, 1992, with the baseline of
W. Kool, H. van Hoof, M. Welling, Buy 4 REINFORCE samples, get a baseline for free, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions.on_samples import Conditional, OnSamples
from lvmdc.losses import Loss

BLOCK_NUMBERS = 1 << 20  # pairs of draws per block of Δ


@dataclass(frozen=True)
class Sampled(OnSamples):
    """k independent draws of h for each sample: classes y (n,), candidate indices h (n, k).

    With `log_prob` (n, k), the log-probability of each draw, differentiable in the parameters of its distribution, `diversity` and
    `dissimilarity` have unbiased gradient estimates. Self-diversity needs at least two draws.

    >>> P = Sampled(Candidates(torch.zeros(2, 1), [2]), torch.tensor([0]), torch.tensor([[0, 1, 1, 1]]))
    >>> P.table(1).flatten()
    tensor([0.2500, 0.7500])
    """

    y: Tensor
    h: Tensor
    log_prob: Tensor | None = None

    def __post_init__(self) -> None:
        n, counts = len(self.candidates), self.candidates.counts
        if self.h.dim() != 2 or len(self.h) != n or self.h.shape[1] < 1:
            raise ValueError(f"h must have shape (n, k) with n = {n} and k ≥ 1 draws, but it has shape {tuple(self.h.shape)}")
        if self.h.is_floating_point() or bool(((self.h < 0) | (self.h >= counts[:, None])).any()):
            raise ValueError("h must hold integers, each an index among its sample's own candidates")
        if self.log_prob is not None and self.log_prob.shape != self.h.shape:
            raise ValueError(f"log_prob must have the shape of h, {tuple(self.h.shape)}, but it has shape {tuple(self.log_prob.shape)}")

    @property
    def rows(self) -> Tensor:
        """(n, k) the packed rows of the draws."""
        return self.candidates.offsets[:, None] + self.h

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def table(self, n_classes: int) -> Tensor:
        """(T, K): how often every (y, h) was drawn."""
        if self.log_prob is not None and self.log_prob.requires_grad:
            raise ValueError("the frequency of draws has no gradient, but log_prob requires one; compare with a Delta or Conditional")
        frequency = torch.bincount(self.rows.flatten(), minlength=self.candidates.n_candidates) / self.h.shape[1]
        return Conditional(self.candidates, self.y, frequency).table(n_classes)


def draw(P: Conditional, k: int, generator: torch.Generator | None = None) -> Sampled:
    """k independent draws of h for each sample from its probabilities, in O(T + n k log T), with their log-probabilities.

    Random numbers come from `generator`, by default torch's of the CPU, so that a seed means the same draws on every device.

    >>> draw(Conditional(Candidates(torch.zeros(3, 1), [1, 2]), torch.tensor([0, 0]), torch.tensor([1.0, 0.0, 1.0])), 2).h
    tensor([[0, 0],
            [1, 1]])
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, but it is {k}")
    c = P.candidates
    p = P.p.detach().double()
    reached = p.cumsum(0)
    ends = reached[c.offsets + c.counts - 1]
    before = torch.cat([ends.new_zeros(1), ends[:-1]])
    drawn_on = "cpu" if generator is None else generator.device
    u = torch.rand(len(c), k, generator=generator, dtype=torch.float64, device=drawn_on).to(c.device)
    # Rounding must not move a draw beyond the end of its sample.
    below = torch.nextafter(ends, ends - 1)[:, None]
    rows = torch.searchsorted(reached, torch.minimum(before[:, None] + u * (ends - before)[:, None], below), right=True)
    return Sampled(c, P.y, rows - c.offsets[:, None], P.p[rows].log())


def sampled_mean(values: Tensor, log_prob: Tensor | None = None) -> Tensor:
    """1/k Σ_k f(h_k): the mean of f over draws, an unbiased estimate of E f(h), (n, k) → (n,).

    With `log_prob` (n, k) its gradient is unbiased, too: 1/k Σ_k (f(h_k) − b_k) ∇log p(h_k), b_k the mean of the other draws.

    >>> p = torch.tensor([0.5, 0.5], requires_grad=True)
    >>> sampled_mean(torch.tensor([[1.0, 0.0]]), p.log()[None]).sum().backward()  # f is 1 at the first of two values, 0 at the second
    >>> p.grad  # ∇p(h_1) ∝ (1, −1)
    tensor([ 1., -1.])
    """
    k = values.shape[1]
    mean = values.mean(dim=1)
    if log_prob is None:
        return mean
    if k < 2:  # no other draw to compare with
        return mean + _score(values.detach(), log_prob)
    return mean + _score((values.detach() - mean.detach()[:, None]) / (k - 1), log_prob)


def sampled_diversity(pairs: Tensor, log_prob: Tensor | None = None) -> Tensor:
    """1/(k(k−1)) Σ_{k≠l} Δ(h_k, h_l): the self-diversity (8) over draws, unbiased, (n, k, k) → (n,).

    A draw is never compared with itself: 1/k² Σ_k Σ_l would be too small by the share 1/k. With `log_prob` (n, k) the gradient is unbiased,
    too: the weight of draw k is its mean loss in either role, less the mean of the pairs without it.

    >>> sampled_diversity(torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]))
    tensor([1.])
    """
    k = pairs.shape[1]
    if pairs.dim() != 3 or pairs.shape[2] != k or k < 2:
        raise ValueError(f"pairs must have shape (n, k, k) with k ≥ 2 draws, but it has shape {tuple(pairs.shape)}")
    other = ~torch.eye(k, dtype=torch.bool, device=pairs.device)
    apart = torch.where(other, pairs, 0)
    estimate = apart.sum(dim=(1, 2)) / (k * (k - 1))
    if log_prob is None:
        return estimate
    both = (apart + apart.mT).detach()
    of_draw, of_all = both.sum(dim=2), both.sum(dim=(1, 2))[:, None]  # (n, k), (n, 1)
    baseline = (of_all - 2 * of_draw) / (k - 2) if k > 2 else 0.0
    return estimate + _score((of_draw - baseline) / (k * (k - 1)), log_prob)


def expected_loss(P: Sampled, loss: Loss, n_classes: int) -> Tensor:
    """Δ_i(y, h; θ) (7) of all (y, h) from the draws, unbiased, in O(T k) where |H|² is too much, (T, K).

    >>> from lvmdc.losses import ZeroOneLoss
    >>> P = Sampled(Candidates(torch.zeros(2, 1), [2]), torch.tensor([0]), torch.tensor([[0, 1, 1, 1]]))
    >>> expected_loss(P, ZeroOneLoss(), n_classes=1).flatten()
    tensor([0.7500, 0.2500])
    """
    loss.check_candidates(P.candidates)
    classes = torch.arange(n_classes, device=P.y.device)
    cost = loss.class_cost(P.y[:, None], classes.expand(len(P.y), -1))  # (n, K), or None
    if cost is None:
        return torch.stack([_mean_loss(P, loss, k.expand(len(P.y))) for k in classes], dim=1)
    own = _mean_loss(P, loss, P.y)
    sample = P.candidates.sample
    return cost.to(own.dtype)[sample].scatter(1, P.y[sample, None], own[:, None])


def _mean_loss(P: Sampled, loss: Loss, y: Tensor) -> Tensor:
    """(T,): the mean over the draws of Δ(y_i, h_k, y, h) at every h of the classes y (n,)."""
    total = torch.zeros(P.candidates.n_candidates, device=y.device)
    for rows in P.rows.T:
        total = total + loss_from(loss, P.candidates, P.y, rows, y)
    return total / P.h.shape[1]


def loss_from(loss: Loss, candidates: Candidates, y1: Tensor, rows: Tensor, y2: Tensor) -> Tensor:
    """Δ(y1_i, h', y2_i, h) of one truth h' per sample, as packed rows (n,), against every candidate h, (T,)."""
    sample = candidates.sample
    return loss.delta_at(candidates, y1[sample], rows[sample], y2[sample], torch.arange(len(sample), device=sample.device))


def loss_of_pairs(loss: Loss, candidates: Candidates, y1: Tensor, rows1: Tensor, y2: Tensor, rows2: Tensor) -> Tensor:
    """Δ of every draw of the truth against every draw of the prediction, packed rows (n, k) and (n, l), → (n, k, l)."""
    loss.check_candidates(candidates)
    step = max(1, BLOCK_NUMBERS // (rows1.shape[1] * rows2.shape[1]))
    blocks = zip(*(values.split(step) for values in (y1[:, None, None], rows1[:, :, None], y2[:, None, None], rows2[:, None])), strict=True)
    return torch.cat([loss.delta_at(candidates, *block) for block in blocks])


def _score(weight: Tensor, log_prob: Tensor) -> Tensor:
    """(n,): zero, with the gradient Σ_k weight_k ∇log p(h_k)."""
    return (weight.to(log_prob) * (log_prob - log_prob.detach())).sum(dim=1)
