"""What of a labeled sequence is counted: ψ(x, h)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.chains.scores import ChainScores
from lvmdc.chains.sequences import Chains
from lvmdc.joint import product


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
