"""Chains: sequences whose every site has a latent state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates


class Chains(Candidates):
    """n sequences of sites, packed one after the other as candidates are: a row is what is seen at one site.

    The latent variable of a sequence of m sites is h = (h_1 … h_m), one of S states a site. Its S^m values are never listed.

    Args:
        features: (T, d) what is seen at each site. A column of ones gives every state a weight of its own.
        counts: (n,) how many sites each sequence has; they sum to T.
        phi: (T, d') features of its own for Φ, the conditional distribution; `features` where not given.

    >>> c = Chains(torch.tensor([[1.0], [2.0], [3.0]]), [2, 1])
    >>> c.pad(c.features)[..., 0], c.mask
    (tensor([[1., 2.],
            [3., 0.]]), tensor([[ True,  True],
            [ True, False]]))
    """

    def __init__(self, features: ArrayLike, counts: ArrayLike, phi: ArrayLike | None = None):
        super().__init__(features, counts, None, phi)

    def __repr__(self) -> str:
        return super().__repr__().replace("Candidates(", "Chains(").replace("samples", "sequences").replace("candidates", "sites")

    # ---- padded and packed ---------------------------------------------------------------------------------------

    @cached_property
    def longest(self) -> int:
        """m, the sites of the longest sequence."""
        return int(self.counts.max())

    @cached_property
    def mask(self) -> Tensor:
        """(n, m): which sites of the padded tensors there are."""
        return torch.arange(self.longest, device=self.device) < self.counts[:, None]

    @cached_property
    def _even(self) -> bool:
        return len(self) * self.longest == self.n_candidates

    def pad(self, values: Tensor) -> Tensor:
        """(T, …) → (n, m, …), zero where a sequence has ended; differentiable."""
        shape = (len(self), self.longest, *values.shape[1:])
        return values.reshape(shape) if self._even else values.new_zeros(shape).index_put((self.mask,), values)

    @cached_property
    def padded(self) -> Tensor:
        """(n, m, d): `pad(features)`, kept."""
        return self.pad(self.features)

    def pack(self, padded: Tensor) -> Tensor:
        """(n, m, …) → (T, …), the inverse of `pad`."""
        return padded.flatten(0, 1) if self._even else padded[self.mask]

    def states(self, h: ArrayLike, n_states: int, name: str = "h", unknown: bool = False) -> Tensor:
        """(n, m) the states h (T,) of the sites, padded, refused where they are not in 0..S−1, or −1 where they may be unknown.

        >>> Chains(torch.zeros(3, 1), [2, 1]).states([1, 0, 1], n_states=2)
        tensor([[1, 0],
                [1, 0]])
        """
        states = as_tensor(h).to(self.device)
        if states.shape != (self.n_candidates,):
            raise ValueError(f"{name} must have shape ({self.n_candidates},), one state a site, but it has shape {tuple(states.shape)}")
        if states.is_floating_point() or states.dtype == torch.bool:
            raise ValueError(f"{name} must hold integers, the states of the sites, but it is {states.dtype}")
        bad = ((states < (-1 if unknown else 0)) | (states >= n_states)).nonzero().flatten()
        if len(bad):
            allowed = f"in 0..{n_states - 1}" + (", or −1 where unknown" if unknown else "")
            raise ValueError(f"{name} must hold states {allowed}, but {name}[{int(bad[0])}] is {int(states[bad[0]])}")
        return self.pad(states.long())

    # ---- other sets ----------------------------------------------------------------------------------------------

    def subset(self, index: ArrayLike) -> Chains:
        """The sequences `index` (integers or a mask), in that order."""
        return self._chains(super().subset(index))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Chains:
        return self._chains(super().to(device, dtype))

    def detach(self) -> Chains:
        return self._chains(super().detach())

    def for_phi(self) -> Chains:
        """The sequences as the conditional distribution sees them: `features` are those of Φ."""
        return self._chains(super().for_phi())

    @staticmethod
    def _chains(made: Candidates) -> Chains:
        assert isinstance(made, Chains)  # as `_with` makes them
        return made

    def window(self, radius: int) -> Chains:
        """The same sequences, where a site sees the features of its `radius` neighbours on either side too, zero beyond the ends.

        >>> Chains(torch.tensor([[1.0], [2.0], [3.0]]), [3]).window(1).features
        tensor([[0., 1., 2.],
                [1., 2., 3.],
                [2., 3., 0.]])
        """
        if radius < 0:
            raise ValueError(f"radius must not be negative, but it is {radius}")
        if radius == 0:
            return self
        place = torch.arange(self.n_candidates, device=self.device) - self.offsets[self.sample]
        length = self.counts[self.sample]
        parts = []
        for shift in range(-radius, radius + 1):
            inside = (place + shift >= 0) & (place + shift < length)
            rows = (torch.arange(self.n_candidates, device=self.device) + shift).clamp(0, self.n_candidates - 1)
            parts.append(torch.where(inside[:, None], self.features[rows], 0))
        return self._with(features=torch.cat(parts, dim=1), phi=None)

    @staticmethod
    def concat(sets: Sequence[Candidates]) -> Chains:
        """The sequences of several sets, one set after the other.

        >>> len(Chains.concat([Chains(torch.eye(3), [2, 1]), Chains(torch.eye(3), [3])]))
        3
        """
        joined = Candidates.concat(sets)
        return Chains(joined.features, joined.counts, joined.phi)

    @staticmethod
    def load(path: str | Path, mmap: bool | None = None) -> Chains:
        """Read what `save` wrote: an npz with `features`, `counts` and, where given, `phi`."""
        read = Candidates.load(path, mmap)
        return Chains(read.features, read.counts, read.phi)
