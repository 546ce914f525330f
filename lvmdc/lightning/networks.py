"""Networks for P_w and P_θ whose sizes follow from the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import nn

Network = nn.Module | Callable[[int, int], nn.Module]  # a module, or a function that makes one from the numbers of features and classes


def mlp(n_features: int, n_classes: int, hidden: Sequence[int] = (64,), dropout: float = 0.0) -> nn.Sequential:
    """A multi-layer perceptron from features (T, d) to class scores (T, K), with `hidden` rectified units per layer.

    Its scores replace w·Ψ(x, y, h) in P_w (3) and θ·Φ(x, y, h) in P_θ (5). Each candidate's features are first scaled to mean 0 and
    variance 1, so that one learning rate suits features of any length.

    >>> mlp(4, 3, hidden=[8])(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    if not hidden or min(hidden) < 1:
        raise ValueError(f"hidden must name at least one layer, each of at least one unit, but it is {list(hidden)}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), but it is {dropout}")
    layers: list[nn.Module] = [nn.LayerNorm(n_features, elementwise_affine=False)]
    for before, after in zip([n_features, *hidden], hidden, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], n_classes))


def made(network: Network | None, n_features: int, n_classes: int, seed: int) -> nn.Module | None:
    """The network, which is made from these sizes if it is not a module yet, with first weights by the seed.

    >>> a, b = (made(mlp, 2, 3, seed=0) for _ in range(2))
    >>> torch.equal(a[1].weight, b[1].weight)
    True
    """
    if network is None or isinstance(network, nn.Module):
        return cast(nn.Module | None, network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network(n_features, n_classes)
