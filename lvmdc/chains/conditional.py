"""P_θ of chains: what is believed of the states of a sequence whose class is known."""

import torch
from torch import Tensor, nn

from lvmdc.chains.distribution import ChainDistribution
from lvmdc.chains.feature_map import ChainMap
from lvmdc.chains.marginals import node_marginals
from lvmdc.chains.scores import ChainScores
from lvmdc.chains.sequences import Chains


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
