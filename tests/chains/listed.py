"""The same problem with all labelings listed as candidates, for the learners that need them listed."""

import torch
from brute import every, psi

from lvmdc import Candidates, FunctionLoss
from lvmdc.chains import Chains


class Listed:
    """Candidates whose features are ψ(x, h) of every labeling, phi the φ(x, h) of another map, and Δ by a table of labelings."""

    def __init__(self, chains, states, window=0, transitions=True, theta_window=0, theta_transitions=True, latent=1.0):
        seen, believed = chains.window(window), chains.for_phi().window(theta_window)
        self.h = [every(chains, i, states) for i in range(len(chains))]
        features = torch.stack([psi(seen, i, h, states, transitions) for i in range(len(chains)) for h in self.h[i]])
        phi = torch.stack([psi(believed, i, h, states, theta_transitions) for i in range(len(chains)) for h in self.h[i]])
        self.candidates = Candidates(features, [len(h) for h in self.h], phi=phi)
        width = chains.longest
        self.labels = torch.tensor([[*h, *[-1] * (width - len(h))] for own in self.h for h in own])  # (T, m)
        self.loss = FunctionLoss(self._delta, latent="row")
        self.latent = latent

    def _delta(self, y1, r1, y2, r2):
        a, b = self.labels[r1], self.labels[r2]
        share = ((a != b).double().sum(dim=-1)) / (a >= 0).double().sum(dim=-1)
        return torch.where(y1 == y2, self.latent * share, torch.ones((), dtype=torch.float64))

    def index(self, i, labels):
        """Which candidate of sample i a labeling is."""
        return self.h[i].index(tuple(labels))

    def start(self, chains: Chains, h):
        """(n,) the candidates of states h (T,)."""
        return [self.index(i, part.tolist()) for i, part in enumerate(h.split(chains.counts.tolist()))]

    def marginals(self, p, chains, states):
        """(n, m, S) of probabilities p (T,) over the candidates."""
        out = torch.zeros(len(chains), chains.longest, states, dtype=torch.float64)
        for i, (first, count) in enumerate(zip(self.candidates.offsets.tolist(), self.candidates.counts.tolist(), strict=True)):
            for row in range(first, first + count):
                for t, s in enumerate(self.h[i][row - first]):
                    out[i, t, s] += p[row]
        return out
