"""What of a labeled sequence is counted: ψ(x, h)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.chains.sequences import Chains
from lvmdc.feature_maps import product


@dataclass(frozen=True)
class ChainMap:
    """ψ(x, h) = (Σ_t [h_t = s] x_t for each state s; how often s is followed by s'), in the block of class y of Ψ(x, y, h).

    So a block of w has (S, d) weights of what is seen and, with `transitions`, (S, S) of what follows what:
    w·Ψ(x, y, h) = Σ_t w_{y,h_t}·x_t + Σ_t A_y[h_t, h_{t+1}]. P_w and P_θ may have different maps, on windows of different widths.

    >>> seen, follows = ChainMap(n_states=2, n_features=3, transitions=True).split(torch.arange(10.0))
    >>> seen.shape, follows
    (torch.Size([2, 3]), tensor([[6., 7.],
            [8., 9.]]))
    """

    n_states: int
    n_features: int
    transitions: bool = True

    @property
    def size(self) -> int:
        """The length of ψ."""
        return self.n_states * (self.n_features + self.transitions * self.n_states)

    def split(self, block: Tensor) -> tuple[Tensor, Tensor | None]:
        """(…, size) → (…, S, d), (…, S, S) or None: the weights of what is seen, and of what follows what."""
        seen = self.n_states * self.n_features
        weights = block[..., :seen].unflatten(-1, (self.n_states, self.n_features))
        return weights, block[..., seen:].unflatten(-1, (self.n_states, self.n_states)) if self.transitions else None

    def scores(self, chains: Chains, block: Tensor) -> ChainScores:
        """block·ψ(x, h) of all h, differentiable in the block (size,).

        >>> one = Chains(torch.tensor([[1.0], [2.0]]), [2])
        >>> ChainMap(2, 1, transitions=False).scores(one, torch.tensor([0.0, 3.0])).of(torch.tensor([[1, 0]]))
        tensor([3.])
        """
        seen, follows = self.split(block)
        padded = chains.padded
        unary = product(padded.flatten(0, 1), seen).unflatten(0, padded.shape[:2])
        return ChainScores(unary, follows, chains.counts)

    def vectors(self, chains: Chains, samples: Tensor, h: Tensor) -> Tensor:
        """(M, size): ψ(x, h) of labelings h (M, m) of the sequences `samples` (M,), in float32 at least.

        >>> ChainMap(2, 1).vectors(Chains(torch.tensor([[1.0], [2.0]]), [2]), torch.tensor([0]), torch.tensor([[1, 0]]))
        tensor([[2., 1., 0., 0., 1., 0.]])
        """
        j, t = chains.mask[samples].nonzero(as_tuple=True)  # all sites of all of the labelings
        features = chains.features[chains.offsets[samples[j]] + t]
        features = features.to(torch.promote_types(features.dtype, torch.float32))
        seen = features.new_zeros(len(h) * self.n_states, self.n_features)
        seen.index_add_(0, j * self.n_states + h[j, t], features)
        parts = [seen.reshape(len(h), self.n_states * self.n_features)]
        if self.transitions:
            j, t = j[t > 0], t[t > 0]
            pair = (j * self.n_states + h[j, t - 1]) * self.n_states + h[j, t]
            parts.append(torch.bincount(pair, minlength=len(h) * self.n_states**2).reshape(len(h), self.n_states**2).to(features))
        return torch.cat(parts, dim=1)


# What scores the states of a chain: site by site, and pair by pair of neighbours.


class ChainScores:
    """s(h) = Σ_t unary[t, h_t] + Σ_t pairwise[t, h_t, h_{t+1}] for each of n chains of m sites and S states.

    Args:
        unary: (n, m, S).
        pairwise: (S, S) the same between all neighbours, (n, S, S) one for each chain, (n, m − 1, S, S), or None: sites are independent.
        lengths: (n,) how many of the m sites each chain has; all of them where not given.

    >>> scores = ChainScores(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]), torch.tensor([[0.0, 0.0], [5.0, 0.0]]))
    >>> scores.of(torch.tensor([[1, 0]]))
    tensor([6.])
    """

    def __init__(self, unary: Tensor, pairwise: Tensor | None = None, lengths: Tensor | None = None):
        if unary.dim() != 3 or not unary.is_floating_point():
            raise ValueError(f"unary must be floating point of shape (n, m, S), but it is {unary.dtype} of shape {tuple(unary.shape)}")
        n, m, states = unary.shape
        self.unary = unary
        self.pairwise = None if pairwise is None else _four(pairwise, n, m, states).to(unary.dtype)  # (1 or n, 1 or m − 1, S, S)
        self.lengths = torch.full((n,), m, device=unary.device) if lengths is None else lengths.to(unary.device)
        if self.lengths.shape != (n,) or bool(((self.lengths < 1) | (self.lengths > m)).any()):
            raise ValueError(f"lengths must be {n} numbers in 1..{m}, but they are {self.lengths.tolist()}")
        self.mask = torch.arange(m, device=unary.device) < self.lengths[:, None]  # (n, m)
        self.even = bool((self.lengths == m).all())
        for name, given, read in (("unary", unary, self.mask), ("pairwise", self.pairwise, ...)):
            # The sum, which is quick, is finite only if all are; where it is not, it may still have overflown, or never be read.
            if given is not None and not bool(given.detach().sum().isfinite()) and not bool(given.detach()[read].isfinite().all()):
                raise ValueError(f"{name} must be finite, but it holds NaN or infinity; a large negative number forbids a state")

    def __len__(self) -> int:
        return len(self.unary)

    @property
    def n_states(self) -> int:
        return self.unary.shape[2]

    def between(self, t: int) -> Tensor:
        """(1 or n, S, S): the scores of the states of sites t and t + 1."""
        assert self.pairwise is not None
        return self.pairwise[:, min(t, self.pairwise.shape[1] - 1)]

    def of(self, h: Tensor) -> Tensor:
        """The scores of labelings, (n, …, m) → (n, …); what stands beyond the end of a chain is not read."""
        chains = torch.arange(len(self), device=h.device).reshape(-1, *[1] * (h.dim() - 1))
        sites = torch.arange(h.shape[-1], device=h.device)
        mask = self.mask.reshape(len(self), *[1] * (h.dim() - 2), -1)
        h = torch.where(mask, h, 0)
        total = torch.where(mask, self.unary[chains, sites, h], 0).sum(dim=-1)
        if self.pairwise is not None and h.shape[-1] > 1:
            a, b, *_ = self.pairwise.shape
            steps = self.pairwise[chains if a > 1 else 0, sites[:-1] if b > 1 else 0, h[..., :-1], h[..., 1:]]
            total = total + torch.where(mask[..., 1:], steps, 0).sum(dim=-1)
        return total

    def plus(self, unary: Tensor) -> ChainScores:
        """The same chains with (n, m, S) more at the sites: loss-augmented, for example."""
        return ChainScores(self.unary + unary, self.pairwise, self.lengths)


def _four(pairwise: Tensor, n: int, m: int, states: int) -> Tensor:
    """(1 or n, 1 or m − 1, S, S)."""
    four = pairwise[None, None] if pairwise.dim() == 2 else pairwise[:, None] if pairwise.dim() == 3 else pairwise
    good = four.dim() == 4 and four.shape[0] in (1, n) and four.shape[1] in (1, m - 1) and four.shape[2:] == (states, states)
    if not good:
        raise ValueError(
            f"pairwise must have shape (S, S), (n, S, S) or (n, m − 1, S, S) with n = {n}, m = {m}, S = {states},"
            f" but it has shape {tuple(pairwise.shape)}"
        )
    return four
