"""The Hamming loss of labelings, with the class."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class HammingLoss:
    """Δ = the share of sites whose states differ, times `latent`, where y1 = y2, 1 elsewhere.

    It is a sum over sites, whence its expectations need node marginals p (n, m, S) alone: the expected loss (7) of h is the mean over
    sites of 1 − p_t(h_t), and the self-diversity (8) the mean of 1 − Σ_s p_t(s)², both in O(m S).

    Args:
        latent: the loss of a labeling all of whose states are wrong; 0: of the label alone.

    >>> p = torch.tensor([[[0.75, 0.25], [0.5, 0.5]]])  # one chain of two sites
    >>> HammingLoss().expected(p, torch.tensor([[0, 0]]), torch.tensor([2])), HammingLoss().diversity(p, torch.tensor([2]))
    (tensor([0.3750]), tensor([0.4375]))
    """

    def __init__(self, latent: float = 1.0):
        if not (math.isfinite(latent) and latent >= 0):
            raise ValueError(f"latent must be a number ≥ 0, but it is {latent}")
        self.latent = latent

    class_cost = 1.0  # Δ where the classes differ

    def site_loss(self, p: Tensor, lengths: Tensor) -> Tensor:
        """(n, m, S): what each state of each site adds to Δ_i(y_i, h; θ) (7); zero beyond the end. For loss-augmented Viterbi."""
        return torch.where(_mask(p, lengths)[..., None], (1 - p) * self._share(p, lengths)[:, None, None], 0)

    def expected(self, p: Tensor, h: Tensor, lengths: Tensor) -> Tensor:
        """Δ_i(y_i, h; θ) (7) of labelings h (n, m), (n, m, S) → (n,), differentiable in p."""
        right = torch.where(_mask(p, lengths), p.gather(2, h[..., None])[..., 0], 1)
        return (1 - right).sum(dim=1) * self._share(p, lengths)

    def diversity(self, p: Tensor, lengths: Tensor, q: Tensor | None = None) -> Tensor:
        """H_i(θ) (8), or H (1) of two distributions of the same class with marginals p and q, (n, m, S) → (n,), differentiable."""
        agree = torch.where(_mask(p, lengths), (p * (p if q is None else q)).sum(dim=2), 1)
        return (1 - agree).sum(dim=1) * self._share(p, lengths)

    def between(self, y1: Tensor, h1: Tensor, y2: Tensor, h2: Tensor, lengths: Tensor) -> Tensor:
        """The loss of predictions (y2, h2) against truths (y1, h1), of which the h are labelings (n, …, m), in float64, (n, …).

        >>> one = torch.tensor([1])
        >>> HammingLoss().between(one, torch.tensor([[0, 1]]), one, torch.tensor([[0, 0]]), torch.tensor([2]))
        tensor([0.5000], dtype=torch.float64)
        """
        differ = h1 != h2  # (n, …, m)
        shape = (len(lengths), *[1] * (differ.dim() - 2), -1)
        inside = (torch.arange(differ.shape[-1], device=differ.device) < lengths[:, None]).reshape(shape)
        share = (differ & inside).double().sum(dim=-1) / lengths.reshape(shape[:-1])
        return torch.where((y1 == y2).reshape(shape[:-1]), self.latent * share, self.class_cost)

    def _share(self, p: Tensor, lengths: Tensor) -> Tensor:
        """(n,) what one site weighs."""
        return self.latent / lengths.to(p.dtype)

    def __repr__(self) -> str:
        return "HammingLoss()" if self.latent == 1 else f"HammingLoss(latent={self.latent:g})"


def _mask(p: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(p.shape[1], device=p.device) < lengths[:, None]  # (n, m)
