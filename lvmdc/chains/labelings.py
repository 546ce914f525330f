"""The labelings that a solver has met: the few of the S^m that it works with, by number."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.chains.feature_map import ChainMap
from lvmdc.chains.sequences import Chains
from lvmdc.joint import JointFeatureMap


class Labelings(JointFeatureMap):
    """Numbers labelings as rows, the same one of the same sequence always alike, and is their joint feature map Ψ(x, y, h).

    With it, solvers that know a (y, h) by its class and its packed row work on latent sets that nobody could list.

    >>> chains = Chains(torch.tensor([[1.0], [2.0], [4.0]]), [2, 1])
    >>> met = Labelings(chains, ChainMap(2, 1, transitions=False), n_classes=1)
    >>> rows = met.rows(torch.tensor([0, 1, 0]), torch.tensor([[1, 0], [1, 0], [1, 0]]))
    >>> rows, met.sum(chains, torch.tensor([0, 0]), rows[:2])
    (tensor([0, 1, 0]), tensor([2., 5.], dtype=torch.float64))
    """

    def __init__(self, chains: Chains, chain_map: ChainMap, n_classes: int):
        self.chains, self.map, self.n_classes = chains, chain_map, n_classes
        self._number: dict[tuple[int, bytes], int] = {}
        self._h = np.zeros((0, chains.longest), np.int32)
        self._sample = np.zeros(0, np.int64)
        self._free: list[int] = []

    def rows(self, samples: Tensor, h: Tensor) -> Tensor:
        """(M,) the numbers of labelings h (M, m) of the sequences `samples` (M,); zero beyond the end, as all of them are."""
        labels, owners = np.ascontiguousarray(h.cpu().numpy(), np.int32), samples.tolist()
        self._reserve(len(labels))
        found = np.empty(len(labels), np.int64)
        for j, owner in enumerate(owners):
            key = (owner, labels[j].tobytes())
            row = self._number.get(key, -1)
            if row < 0:
                row = self._number[key] = self._free.pop()
                self._h[row], self._sample[row] = labels[j], owner
            found[j] = row
        return torch.from_numpy(found).to(samples.device)

    def _reserve(self, more: int) -> None:
        size = len(self._h)
        if len(self._free) < more:
            grown = max(2 * size, size + more)
            self._h, self._sample = np.pad(self._h, ((0, grown - size), (0, 0))), np.pad(self._sample, (0, grown - size))
            self._free = [*range(grown - 1, size - 1, -1), *self._free]

    def __len__(self) -> int:
        return len(self._number)

    def h(self, rows: Tensor) -> Tensor:
        """(M, m) the labelings of rows (M,)."""
        return torch.from_numpy(self._h[rows.cpu().numpy()]).to(rows.device).long()

    def samples(self, rows: Tensor) -> Tensor:
        """(M,) the sequences that rows (M,) are labelings of."""
        return torch.from_numpy(self._sample[rows.cpu().numpy()]).to(rows.device)

    def forget_but(self, rows: np.ndarray) -> None:
        """Numbers other than these may go to other labelings."""
        kept = set(rows.tolist())
        self._number = {key: row for key, row in self._number.items() if row in kept}
        self._free = [row for row in range(len(self._h) - 1, -1, -1) if row not in kept]

    # ---- as a joint feature map ----------------------------------------------------------------------------------

    def size(self, candidates: Candidates) -> int:
        return self.n_classes * self.map.size

    def vectors(self, candidates: Candidates, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.map.vectors(self.chains, self.samples(rows), self.h(rows)), y

    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        vectors = self.vectors(candidates, y, rows)[0].double()
        if weight is not None:
            vectors = vectors * weight[:, None]
        return vectors.new_zeros(self.n_classes, self.map.size).index_add_(0, y, vectors).flatten()

    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        """(P, K): of the labelings that were met, by number."""
        every = torch.arange(len(self._h), device=w.device)
        vectors = self.vectors(candidates, every, every)[0]
        return vectors @ w.reshape(self.n_classes, -1).to(vectors).T

    # ---- keeping -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The labelings and their numbers, as tensors."""
        rows = np.array(sorted(self._number.values()), np.int64)
        free = torch.tensor(self._free, dtype=torch.long)
        return {
            "rows": torch.from_numpy(rows),
            "h": torch.from_numpy(self._h[rows]),
            "sample": torch.from_numpy(self._sample[rows]),
            "free": free,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up the numbers of `state`."""
        rows, h, sample = (state[name].cpu().numpy() for name in ("rows", "h", "sample"))
        self._free = state["free"].tolist()
        size = len(rows) + len(self._free)
        self._h, self._sample = np.zeros((size, self.chains.longest), np.int32), np.zeros(size, np.int64)
        self._h[rows], self._sample[rows] = h, sample
        self._number = {(int(i), labels.tobytes()): int(row) for row, labels, i in zip(rows, h, sample, strict=True)}
