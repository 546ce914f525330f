"""P(h) ∝ exp(s(h)) over the labelings of a chain, whose S^m values are never listed."""

from functools import cached_property

import torch
from torch import Tensor

from lvmdc.chains.messages import backward, forward
from lvmdc.chains.scores import ChainScores
from lvmdc.chains.viterbi import viterbi


class ChainDistribution:
    """P(h) = exp(s(h)) / Z for each of n chains; everything costs O(m S²) and is differentiable in the scores, as often as one likes.

    >>> P = ChainDistribution(ChainScores(torch.zeros(1, 2, 2), torch.tensor([[0.0, 0.0], [1.0986, 0.0]])))
    >>> P.log_partition.exp(), P.marginals
    (tensor([6.0000]), tensor([[[0.3333, 0.6667],
             [0.6667, 0.3333]]]))
    """

    def __init__(self, scores: ChainScores):
        self.scores = scores

    @cached_property
    def _forward(self) -> Tensor:
        return forward(self.scores)

    @cached_property
    def _backward(self) -> Tensor:
        return backward(self.scores)

    @cached_property
    def log_partition(self) -> Tensor:
        """(n,): log Z."""
        return self._forward[:, -1].logsumexp(dim=1)

    @cached_property
    def marginals(self) -> Tensor:
        """(n, m, S): P(h_t = s), zero beyond the end of a chain."""
        # Normalised at each site, so that a rounded log Z cannot show.
        p = (self.scores.unary if self.scores.pairwise is None else self._forward + self._backward).softmax(dim=2)
        return p if self.scores.even else torch.where(self.scores.mask[..., None], p, 0)

    @property
    def edge_marginals(self) -> Tensor:
        """(n, m − 1, S, S): P(h_t = s, h_{t+1} = s'), zero beyond the end of a chain."""
        steps = [self._edge(t) for t in range(self.scores.unary.shape[1] - 1)]
        n, _, states = self.scores.unary.shape
        return torch.stack(steps, dim=1) if steps else self.scores.unary.new_zeros(n, 0, states, states)

    def _edge(self, t: int) -> Tensor:
        """(n, S, S): P(h_t, h_{t+1})."""
        ahead = self.scores.unary[:, t + 1] + self._backward[:, t + 1]
        log_p = self._forward[:, t, :, None] + ahead[:, None, :]
        if self.scores.pairwise is not None:
            log_p = log_p + self.scores.between(t)
        p = log_p.flatten(1).softmax(dim=1).reshape(log_p.shape)
        return p if self.scores.even else torch.where(self.scores.mask[:, t + 1, None, None], p, 0)

    def log_prob(self, h: Tensor) -> Tensor:
        """log P(h) of labelings, (n, …, m) → (n, …)."""
        found = self.scores.of(h)
        return found - self.log_partition.reshape(-1, *[1] * (found.dim() - 1))

    def entropy(self) -> Tensor:
        """(n,) Shannon entropy of h in nats: log Z − E[s(h)]."""
        mean = (self.marginals * torch.where(self.scores.mask[..., None], self.scores.unary, 0)).sum(dim=(1, 2))
        if self.scores.pairwise is not None:
            for t in range(self.scores.unary.shape[1] - 1):  # one pair of sites at a time: all of them may be large
                mean = mean + (self._edge(t) * self.scores.between(t)).sum(dim=(1, 2))
        return self.log_partition - mean

    def mode(self) -> Tensor:
        """(n, m): the most probable labeling."""
        return viterbi(self.scores)[1]

    @torch.no_grad()
    def sample(self, k: int, generator: torch.Generator | None = None) -> Tensor:
        """(n, k, m): k independent exact draws for each chain, filtered forwards, sampled backwards; zero beyond the end.

        >>> P = ChainDistribution(ChainScores(torch.tensor([[[0.0, 99.0], [0.0, 0.0]]]), torch.tensor([[0.0, 0.0], [99.0, 0.0]])))
        >>> P.sample(2)
        tensor([[[1, 0],
                 [1, 0]]])
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, but it is {k}")
        n, m, states = self.scores.unary.shape
        chains = torch.arange(n, device=self.scores.unary.device)[:, None]
        later = torch.zeros(n, k, dtype=torch.long, device=self.scores.unary.device)
        found = []
        for t in range(m - 1, -1, -1):
            log_p = self._forward[:, t, None, :].expand(n, k, states)
            if t < m - 1 and self.scores.pairwise is not None:
                table = self.scores.between(t)
                onward = table.mT[chains.clamp(max=len(table) - 1), later]  # (n, k, S) what each state of t scores with the next one
                log_p = torch.where(self.scores.mask[:, t + 1, None, None], log_p + onward, log_p)
            drawn = torch.multinomial(log_p.softmax(dim=2).flatten(0, 1), 1, generator=generator).reshape(n, k)
            later = torch.where(self.scores.mask[:, t, None], drawn, 0)
            found.append(later)
        return torch.stack(found[::-1], dim=2)
