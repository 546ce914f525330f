"""Chains by enumeration: all S^m labelings, one after the other."""

import itertools
import math

import torch
from hypothesis import strategies as st

from lvmdc.chains import Chains, ChainScores


def random_scores(n=3, m=4, states=3, kind="shared", seed=0, scale=1.0, ragged=True):
    """Chains of 1 to m sites with scores of every kind."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, m + 1, (n,), generator=g) if ragged else torch.full((n,), m)
    lengths[0] = m
    shape = {"none": None, "shared": (states, states), "chain": (n, states, states), "site": (n, m - 1, states, states)}[kind]
    pairwise = None if shape is None else scale * torch.randn(shape, generator=g, dtype=torch.float64)
    return ChainScores(scale * torch.randn(n, m, states, generator=g, dtype=torch.float64), pairwise, lengths)


def all_scores(kinds=("none", "shared", "chain", "site")):
    """Every small shape: one site, one state and one chain among them; scores that no exponential can hold too."""
    return st.builds(
        random_scores,
        st.integers(1, 3),
        st.integers(1, 4),
        st.integers(1, 3),
        st.sampled_from(kinds),
        st.integers(0, 999),
        st.sampled_from((1, 30, 900)),
    )


def labelings(scores, i):
    """{h: s(h)} of chain i, h a tuple of its own length."""
    length, found = int(scores.lengths[i]), {}
    for h in itertools.product(range(scores.n_states), repeat=length):
        total = sum(float(scores.unary[i, t, s]) for t, s in enumerate(h))
        if scores.pairwise is not None:
            a, b = scores.pairwise.shape[:2]
            total += sum(float(scores.pairwise[i if a > 1 else 0, t if b > 1 else 0, h[t], h[t + 1]]) for t in range(length - 1))
        found[h] = total
    return found


def log_sum(values):
    peak = max(values)
    return peak + math.log(sum(math.exp(v - peak) for v in values))


def probabilities(scores, i):
    found = labelings(scores, i)
    log_z = log_sum(found.values())
    return {h: math.exp(s - log_z) for h, s in found.items()}


def marginals(scores):
    out = torch.zeros_like(scores.unary)
    for i in range(len(scores)):
        for h, p in probabilities(scores, i).items():
            for t, s in enumerate(h):
                out[i, t, s] += p
    return out


def hamming(y1, h1, y2, h2, latent=1.0):
    return 1.0 if y1 != y2 else latent * sum(a != b for a, b in zip(h1, h2, strict=True)) / len(h1)


def random_chains(n=5, m=3, d=2, seed=0, n_classes=2, phi=0):
    """Short random sequences of 1 to m sites, in float64, with classes."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, m + 1, (n,), generator=g)
    counts[0] = m
    x = torch.randn(int(counts.sum()), d, generator=g, dtype=torch.float64)
    own = torch.randn(len(x), phi, generator=g, dtype=torch.float64) if phi else None
    y = torch.arange(n) % n_classes
    return Chains(x, counts, own), y


def psi(chains, i, h, states, transitions=True):
    """ψ(x_i, h) by definition."""
    start, d = int(chains.offsets[i]), chains.n_features
    seen, follows = torch.zeros(states, d, dtype=torch.float64), torch.zeros(states, states, dtype=torch.float64)
    for t, s in enumerate(h):
        seen[s] += chains.features[start + t]
        if t:
            follows[h[t - 1], s] += 1
    return torch.cat([seen.flatten(), follows.flatten()]) if transitions else seen.flatten()


def every(chains, i, states):
    return list(itertools.product(range(states), repeat=int(chains.counts[i])))
