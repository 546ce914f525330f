"""The labelings that a solver has met: the few of the S^m that it works with, by number."""

from collections import deque
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.chains.scores import ChainMap
from lvmdc.chains.sequences import Chains
from lvmdc.chains.viterbi import viterbi
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.objective import half_square
from lvmdc.solvers.w_block import Point, StructuredHinge


class Labelings(JointFeatureMap):
    """Numbers labelings as rows, the same one of the same sequence with the same number, and is their joint feature map Ψ(x, y, h).

    With it, solvers that know a (y, h) by its class and its packed row work on latent sets too large to list.

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


# The w block on chains: (13) and (14), where loss-augmented Viterbi takes the place of a table of scores.

FORBIDDEN = -1e9  # the score of a state that a known site is not in
REMEMBERED = 4  # results of inference that are kept, since solvers ask for the same more than once


class ChainHinge(StructuredHinge):
    """½‖w‖² + C/n Σ_i ξ_i (13) over w, for sequences with outputs y_i.

    The scores of S^m labelings cannot be listed: the `scores` of a `Point` are w itself. What is passed as the expected loss is what each
    state of each site adds to it where the classes agree, (n, m, S); where they do not it is `class_cost`.

    Args:
        known: (n, m) the true state where it is known, −1 where not.

    >>> chains = Chains(torch.tensor([[1.0], [1.0], [-1.0]]), [2, 1])
    >>> hinge = ChainHinge(chains, torch.tensor([0, 1]), ChainMap(2, 1), n_classes=2, C=10.0, class_cost=1.0)
    >>> hinge.value(hinge.origin(), torch.zeros(2, 2, 2))
    10.0
    """

    joint: Labelings

    def __init__(
        self, chains: Chains, y: Tensor, chain_map: ChainMap, n_classes: int, C: float, class_cost: float, known: Tensor | None = None
    ):
        super().__init__(chains, y, Labelings(chains, chain_map, n_classes), C)
        self.chains, self.map, self.class_cost = chains, chain_map, class_cost
        self.fixed = None if known is None or not bool((known >= 0).any()) else forbid(known, chain_map.n_states)
        self._augmented: deque[tuple[Tensor, Tensor, tuple[Tensor, Tensor]]] = deque(maxlen=REMEMBERED)
        self._own: deque[tuple[Tensor, tuple[Tensor, Tensor]]] = deque(maxlen=REMEMBERED)

    @cached_property
    def n_classes(self) -> int:
        return self.joint.n_classes

    def origin(self) -> Point:
        return self._point(torch.zeros(self.size, dtype=torch.float64, device=self.chains.device))

    def at(self, w: Tensor) -> Point:
        self.passes += 1
        return self._point(w)

    def _point(self, w: Tensor) -> Point:
        # In the precision that scores have, by which solvers know what they cannot tell from rounding.
        return Point(w, w.to(torch.promote_types(self.chains.features.dtype, torch.float32)))

    def has(self, rows: Tensor) -> Tensor:
        return torch.ones(len(rows), self.n_classes, dtype=torch.bool, device=rows.device)

    # ---- inference -----------------------------------------------------------------------------------------------

    def augmented(self, w: Tensor, expected_loss: Tensor) -> tuple[Tensor, Tensor]:
        """(n, K), (n, K, m): max_h [w·Ψ(x_i, y, h) + Δ_i(y, h; θ)] of each class y, and the h that has it."""
        for known_w, known_loss, found in self._augmented:
            if known_w is w and known_loss is expected_loss:
                return found
        values, labelings = [], []
        for k, block in enumerate(w.reshape(self.n_classes, -1)):
            own = self.y == k
            scores = self.map.scores(self.chains, block)
            value, h = viterbi(scores.plus(torch.where(own[:, None, None], expected_loss.to(scores.unary), 0)))
            values.append(torch.where(own, value, value + self.class_cost))
            labelings.append(h)
        found = torch.stack(values, dim=1), torch.stack(labelings, dim=1)
        self._augmented.append((w, expected_loss, found))
        return found

    def own(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(n,), (n, m): max_h w·Ψ(x_i, y_i, h) over the h that agree with what is known, and h*_i, which has it."""
        for known_w, found in self._own:
            if known_w is w:
                return found
        value, h = own_viterbi(self.map, self.chains, w.reshape(self.n_classes, -1), self.y, self.fixed)
        self._own.append((w, (value, h)))
        return value, h

    def predict(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(n,), (n, m): argmax_{y,h} w·Ψ(x_i, y, h) (3)."""
        return predict(self.map, self.chains, w.reshape(self.n_classes, -1))

    def slack(self, scores: Tensor, expected_loss: Tensor) -> Tensor:
        return self.augmented(scores, expected_loss)[0].amax(dim=1) - self.truth_score(scores)

    def truth_score(self, scores: Tensor) -> Tensor:
        return self.own(scores)[0]

    def impute(self, scores: Tensor) -> Tensor:
        """h*_i = argmax_h w·Ψ(x_i, y_i, h) by number (n,), see `Labelings`."""
        return self.number(self.own(scores)[1])

    def violated(self, scores: Tensor, expected_loss: Tensor) -> tuple[Tensor, Tensor]:
        value, h = self.augmented(scores, expected_loss)
        y = value.argmax(dim=1)
        return y, self.number(h[torch.arange(len(y), device=y.device), y])

    def number(self, h: Tensor) -> Tensor:
        """(n,) the numbers of labelings (n, m), one for each sequence."""
        return self.joint.rows(torch.arange(len(h), device=h.device), h)

    # ---- values --------------------------------------------------------------------------------------------------

    def value_at_origin(self, expected_loss: Tensor) -> float:
        worst = expected_loss.amax(dim=2).sum(dim=1)
        return self.C * self.mean(worst.clamp(min=self.class_cost) if self.n_classes > 1 else worst)

    def convex_value(self, point: Point, expected_loss: Tensor, truth: Tensor) -> float:
        augmented = self.mean(self.augmented(point.scores, expected_loss)[0].amax(dim=1))
        return half_square(point.w) + self.C * (augmented - float(point.w @ truth))


def forbid(known: Tensor, n_states: int) -> Tensor:
    """(n, m) → (n, m, S): what to add to scores so that no site is in another state than the one it is known to be in.

    >>> forbid(torch.tensor([[1, -1]]), 2)
    tensor([[[-1.0000e+09,  0.0000e+00],
             [ 0.0000e+00,  0.0000e+00]]])
    """
    other = (known[..., None] >= 0) & (known[..., None] != torch.arange(n_states, device=known.device))
    return torch.zeros(other.shape, device=known.device).masked_fill(other, FORBIDDEN)


def own_viterbi(chain_map: ChainMap, chains: Chains, blocks: Tensor, y: Tensor, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(n,), (n, m): max_h [w·Ψ(x_i, y_i, h) + Σ_t added[i, t, h_t]] under each sequence's own class, and its h; blocks (K, D / K) of w.

    >>> own_viterbi(ChainMap(2, 1, False), Chains(torch.ones(2, 1), [1, 1]), torch.tensor([[0.0, 1.0], [3.0, 2.0]]), torch.tensor([0, 1]))
    (tensor([1., 3.]), tensor([[1],
            [0]]))
    """
    value = torch.zeros(len(y), dtype=torch.promote_types(chains.features.dtype, torch.float32), device=y.device)
    h = torch.zeros(len(y), chains.longest, dtype=torch.long, device=y.device)
    for k in y.unique().tolist():
        some = (y == k).nonzero().flatten()
        part = chains.subset(some)
        scores = chain_map.scores(part, blocks[k])
        found, labels = viterbi(scores if added is None else scores.plus(added[some, : part.longest].to(scores.unary)))
        value[some] = found
        h[some, : part.longest] = labels
    return value, h


def predict(chain_map: ChainMap, chains: Chains, blocks: Tensor) -> tuple[Tensor, Tensor]:
    """(n,), (n, m): y(w) and h(w), argmax_{y,h} w·Ψ(x, y, h) (3); blocks (K, D / K) of w.

    >>> predict(ChainMap(2, 1, False), Chains(torch.ones(1, 1), [1]), torch.tensor([[0.0, 1.0], [3.0, 2.0]]))
    (tensor([1]), tensor([[0]]))
    """
    found = [viterbi(chain_map.scores(chains, block)) for block in blocks]
    y = torch.stack([value for value, _ in found]).argmax(dim=0)
    return y, torch.stack([h for _, h in found])[y, torch.arange(len(y), device=y.device)]
