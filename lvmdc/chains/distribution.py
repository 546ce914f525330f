"""P(h) ∝ exp(s(h)) over the labelings of a chain, whose S^m values are never listed."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmdc.chains.messages import RANGE, backward, forward
from lvmdc.chains.scores import ChainMap, ChainScores
from lvmdc.chains.sequences import Chains
from lvmdc.chains.viterbi import viterbi
from lvmdc.compiled import FAST, Array, compiled, dot


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

        Random numbers come from `generator`, by default torch's of the CPU, so that a seed means the same draws on every device.

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
            p = log_p.softmax(dim=2).flatten(0, 1).to("cpu" if generator is None else generator.device)
            drawn = torch.multinomial(p, 1, generator=generator).reshape(n, k)
            later = torch.where(self.scores.mask[:, t, None], drawn.to(later.device), 0)
            found.append(later)
        return torch.stack(found[::-1], dim=2)


# Node marginals and their derivative by compiled loops, for the θ block, which asks for them again and again.


def node_marginals(P: ChainDistribution) -> Tensor:
    """(n, m, S): `P.marginals`, several times as fast where all neighbours share their pairwise scores; differentiable once.

    >>> from lvmdc.chains import ChainScores
    >>> node_marginals(ChainDistribution(ChainScores(torch.zeros(1, 2, 2).double(), torch.tensor([[0.0, 0.0], [1.0986, 0.0]]))))
    tensor([[[0.3333, 0.6667],
             [0.6667, 0.3333]]], dtype=torch.float64)
    """
    unary, pairwise = P.scores.unary, P.scores.pairwise
    if pairwise is None or pairwise.shape[:2] != (1, 1) or unary.dtype != torch.float64 or unary.device.type != "cpu":
        return P.marginals
    table = pairwise[0, 0]
    if float(table.detach().amax() - table.detach().amin()) > RANGE[torch.float64]:
        return P.marginals
    return _Marginals.apply(unary, table, P.scores.lengths)


class _Marginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, unary: Tensor, pairwise: Tensor, lengths: Tensor) -> Tensor:
        weights = (pairwise.detach() - pairwise.detach().amax()).exp().numpy()
        seen = (unary.detach() - unary.detach().amax(dim=2, keepdim=True)).exp().contiguous().numpy()
        p, *kept = _forward_backward(seen, weights, lengths.numpy())
        ctx.kept = p, weights, lengths.numpy(), kept
        return torch.from_numpy(p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        p, weights, lengths, kept = ctx.kept
        unary, pairwise = _covariances(grads[0].contiguous().numpy(), p, weights, lengths, *kept)
        return torch.from_numpy(unary), torch.from_numpy(pairwise), None


@compiled(fastmath=FAST)
def _forward_backward(seen: Array, weights: Array, lengths: Array) -> tuple[Array, Array, Array, Array, Array]:  # pragma: no cover
    """P(h_t = s), and the messages: what comes to t from before it, without and with what is seen there, and the same from after it.

    All are (n, m, S), each scaled by a factor of its site, which cancels. `seen` and `weights` are exp of the scores.
    """
    n, _, states = seen.shape
    p = np.zeros(seen.shape)
    come, before = np.ones(seen.shape), np.zeros(seen.shape)
    gone, after = np.ones(seen.shape), np.zeros(seen.shape)
    for i in range(n):
        last = lengths[i] - 1
        for t in range(last + 1):
            if t:
                for s2 in range(states):
                    come[i, t, s2] = 0.0
                for s in range(states):
                    for s2 in range(states):
                        come[i, t, s2] += before[i, t - 1, s] * weights[s, s2]
            total = dot(come[i, t], seen[i, t])
            for s in range(states):
                before[i, t, s] = come[i, t, s] * seen[i, t, s] / total
        for t in range(last, -1, -1):
            if t < last:
                for s in range(states):
                    gone[i, t, s] = dot(weights[s], after[i, t + 1])
            total = dot(gone[i, t], seen[i, t])
            for s in range(states):
                after[i, t, s] = gone[i, t, s] * seen[i, t, s] / total
            total = dot(before[i, t], gone[i, t])
            for s in range(states):
                p[i, t, s] = before[i, t, s] * gone[i, t, s] / total
    return p, come, before, gone, after


@compiled(fastmath=FAST)
def _covariances(
    g: Array, p: Array, weights: Array, lengths: Array, come: Array, before: Array, gone: Array, after: Array
) -> tuple[Array, Array]:  # pragma: no cover
    """(n, m, S), (S, S): the covariances of Σ_t g_t(h_t) with [h_t = s], and summed over all neighbours with [h_t = s, h_{t+1} = s'].

    The derivative of a mean in an exponential family is a covariance: P(h_t = s) · (E[Σ g | h_t = s] − E[Σ g]), where the conditional
    mean is what the sites up to t give, F_t(s), and what those after it give, B_t(s).
    """
    n, m, states = g.shape
    unary, pairwise = np.zeros(g.shape), np.zeros((states, states))
    first, rest = np.empty((m, states)), np.empty((m, states))
    left, right = np.empty(states), np.empty(states)
    for i in range(n):
        last = lengths[i] - 1
        for s in range(states):
            first[0, s], rest[last, s] = g[i, 0, s], 0.0
        for t in range(1, last + 1):
            for s2 in range(states):
                right[s2] = 0.0
            for s in range(states):
                here = before[i, t - 1, s] * first[t - 1, s]
                for s2 in range(states):
                    right[s2] += here * weights[s, s2]
            for s2 in range(states):
                first[t, s2] = g[i, t, s2] + right[s2] / come[i, t, s2]
        for t in range(last - 1, -1, -1):
            for s2 in range(states):
                right[s2] = after[i, t + 1, s2] * (g[i, t + 1, s2] + rest[t + 1, s2])
            for s in range(states):
                rest[t, s] = dot(weights[s], right) / gone[i, t, s]
        mean = 0.0
        for s in range(states):
            mean += p[i, 0, s] * (first[0, s] + rest[0, s])
        for t in range(last + 1):
            for s in range(states):
                unary[i, t, s] = p[i, t, s] * (first[t, s] + rest[t, s] - mean)
        for t in range(last):
            total = dot(before[i, t], gone[i, t])
            for s in range(states):
                left[s] = before[i, t, s] / total
                right[s] = after[i, t + 1, s] * (g[i, t + 1, s] + rest[t + 1, s])
            for s in range(states):
                known = left[s] * (first[t, s] - mean)
                for s2 in range(states):
                    pairwise[s, s2] += weights[s, s2] * (known * after[i, t + 1, s2] + left[s] * right[s2])
    return unary, pairwise


# P_θ of chains: what is believed of the states of a sequence whose class is known.


class ChainConditional(nn.Module):
    """P_θ(h | x, y) = exp(θ_y·φ(x, h)) / Z (5) over the labelings of a sequence, φ the map of P_θ, θ (K, size).

    >>> theta = torch.tensor([[0.0, 1.0986, 0.0, 0.0, 0.0, 0.0]])  # the second state is three times as likely, whatever its neighbours are
    >>> ChainConditional(theta, ChainMap(2, 1))(Chains(torch.ones(2, 1), [2]), torch.tensor([0])).marginals.detach()
    tensor([[[0.2500, 0.7500],
             [0.2500, 0.7500]]])
    """

    def __init__(self, theta: Tensor, chain_map: ChainMap):
        super().__init__()
        self.map = chain_map
        self.theta = nn.Parameter(theta.detach().clone())

    def forward(self, chains: Chains, y: Tensor, fixed: Tensor | None = None) -> ChainDistribution:
        """The distribution of each sequence's own class; `fixed` (n, m, S), see `forbid`, holds known sites where they are."""
        unary = self._together(chains, [(some, P.scores.unary) for some, P in self.by_class(chains, y, fixed)])
        follows = self.map.split(self.theta)[1]
        return ChainDistribution(ChainScores(unary, None if follows is None else follows[y], chains.counts))

    def by_class(self, chains: Chains, y: Tensor, fixed: Tensor | None = None) -> list[tuple[Tensor, ChainDistribution]]:
        """The same, the sequences of each class together: they share their transitions, which is many times quicker."""
        found = []
        for k in y.unique().tolist():
            some = (y == k).nonzero().flatten()
            part = chains.subset(some).to(dtype=self.theta.dtype)
            scores = self.map.scores(part, self.theta[k])
            found.append((some, ChainDistribution(scores if fixed is None else scores.plus(fixed[some, : part.longest].to(scores.unary)))))
        return found

    def marginals(self, chains: Chains, y: Tensor, fixed: Tensor | None = None) -> Tensor:
        """(n, m, S): P_θ(h_t = s | x_i, y_i), zero beyond the end of a sequence; differentiable in θ."""
        return self._together(chains, [(some, node_marginals(P)) for some, P in self.by_class(chains, y, fixed)])

    def entropy(self, chains: Chains, y: Tensor, fixed: Tensor | None = None) -> Tensor:
        """(n,): the entropy of each sequence's h in nats."""
        parts = self.by_class(chains, y, fixed)
        rows = torch.cat([some for some, _ in parts])
        return torch.cat([P.entropy() for _, P in parts])[rows.argsort()]

    @staticmethod
    def _together(chains: Chains, parts: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(n, m, S) from the parts of the classes, each padded to its own longest sequence."""
        rows = torch.cat([some for some, _ in parts])
        return torch.cat([nn.functional.pad(part, (0, 0, 0, chains.longest - part.shape[1])) for _, part in parts])[rows.argsort()]
