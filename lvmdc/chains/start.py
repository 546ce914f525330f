"""Where learning of chains starts: the first labelings."""

from typing import Literal, get_args

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from lvmdc.chains.sequences import Chains

ChainInit = Literal["cluster", "random", "given"]


def starting_states(init: ChainInit, chains: Chains, n_states: int, seed: int, given: Tensor | None, known: Tensor) -> Tensor:
    """(n, m) the first h*, zero beyond the end of a sequence.

    `cluster` takes the clusters of what is seen at the sites, by k-means; `random` draws every state alone; `given` the states `given`.

    Args:
        known: (n, m) the true state where it is known, −1 where not; it goes before any choice.

    >>> chains = Chains(torch.tensor([[0.0], [9.0], [0.1], [9.1]]), [2, 2])
    >>> a, b = starting_states("cluster", chains, 2, seed=0, given=None, known=torch.full((2, 2), -1))
    >>> bool((a == b).all() and a[0] != a[1])
    True
    """
    if init == "given":
        if given is None:
            raise ValueError("init='given' needs h_init=, the states to start from")
        start = given
    elif init == "random":
        # Drawn on the CPU so that a seed means the same start on every device.
        drawn = torch.randint(n_states, (chains.n_candidates,), generator=torch.Generator().manual_seed(seed))
        start = chains.pad(drawn.to(chains.device))
    elif init == "cluster":
        start = chains.pad(_clusters(chains, n_states, seed, chains.pack(known)))
    else:
        raise ValueError(f"init must be one of {', '.join(get_args(ChainInit))}, but it is {init!r}")
    return torch.where(known >= 0, known, start)


def _clusters(chains: Chains, n_states: int, seed: int, known: Tensor) -> Tensor:
    """(T,) k-means of the sites; a state of which sites are known begins at their mean, the others at sites of which nothing is."""
    sites, told = chains.features.float().cpu().numpy(), known.cpu().numpy()
    means = {s: sites[told == s].mean(axis=0) for s in range(n_states) if (told == s).any()}
    rest = np.unique(sites[told < 0], axis=0)
    free = n_states - len(means)
    if len(means) + len(rest) < n_states or len(rest) < free:
        raise ValueError(f"init='cluster' needs n_states = {n_states} different sites at least; choose init='random'")
    if means:
        drawn = iter(rest[np.random.default_rng(seed).choice(len(rest), free, replace=False)])
        centres = np.stack([means[s] if s in means else next(drawn) for s in range(n_states)])
        model = KMeans(n_states, init=centres, n_init=1)
    else:
        model = KMeans(n_states, n_init=1, random_state=seed)
    return torch.from_numpy(model.fit_predict(sites).astype(np.int64)).to(chains.device)
