"""Joint feature maps: how w scores every (y, h), and how Ψ adds up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from typing import Any

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.storage.mapped import is_mapped, row_chunks, rows_at_a_time, take
from lvmdc.thin_product import suits, thin_product, thin_transposed

BAG = 256  # rows that are added up at a time


class JointFeatureMap(ABC):
    """Ψ(x, y, h), defined by two methods: the scores w·Ψ(x, y, h) of all (y, h), and the sum of Ψ over a selection.

    Class-dependent features, weights shared between classes and latent sets that depend on y all fit behind these two, which every solver
    works on. A candidate that class y does not have scores −inf there, whatever w is.

    >>> class Shared(JointFeatureMap):  # one weight vector for all classes, and a bias for each of the two
    ...     def scores(self, candidates, w):
    ...         return (candidates.features @ w[:-2].to(candidates.features.dtype))[:, None] + w[-2:]
    ...     def sum(self, candidates, y, rows, weight=None):
    ...         weight = torch.ones(len(rows)) if weight is None else weight
    ...         bias = torch.zeros(2).index_add(0, y, weight.float())
    ...         return torch.cat([weight.float() @ candidates.features[rows], bias]).double()
    >>> Shared().size(Candidates(torch.eye(3), [3]))
    5
    """

    @abstractmethod
    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        """(T, K): w·Ψ(x, y, h) of every candidate under every class; −inf where class y has no such candidate."""

    @abstractmethod
    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        """(D,) in float64: Σ_j weight_j Ψ(x, y_j, h_j) over a selection of classes y (m,) and packed rows (m,)."""

    def vectors(self, candidates: Candidates, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(m, d'), (m,): Ψ at each of a selection, as a vector and its block of w, of D / d' blocks.

        A map whose Ψ is zero outside a block overrides this to save solvers the zeros; by default Ψ is one block.
        """
        dtype = torch.promote_types(candidates.features.dtype, torch.float32)
        whole = [self.sum(candidates, y[j : j + 1], rows[j : j + 1]).to(dtype) for j in range(len(rows))]
        empty = torch.zeros(0, self.size(candidates), dtype=dtype, device=candidates.device)
        return torch.cat([empty, *(v[None] for v in whole)]), torch.zeros_like(rows)

    def stored_vectors(self, candidates: Candidates) -> Tensor | None:
        """(T, d'): a stored table whose row h is the vector of Ψ(x, y, h) for every y; None: call `vectors`."""
        return None

    def mixtures(self, candidates: Candidates, y: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(n, d'), (n,): for each sample Σ_h weight_h Ψ(x, y, h) over its candidates, as `vectors` has it; weights (T,)."""
        parts = []
        for i, (start, count) in enumerate(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True)):
            rows = start + weights[start : start + count].nonzero().flatten()
            vectors, blocks = self.vectors(candidates, y[i].expand(len(rows)), rows)
            parts.append((weights[rows].to(vectors) @ vectors, blocks[0]))
        return torch.stack([v for v, _ in parts]), torch.stack([b for _, b in parts])

    def own_scores(self, candidates: Candidates, w: Tensor, y: Tensor) -> Tensor:
        """(T,): the scores under each sample's own class y (n,)."""
        return self.scores(candidates, w).gather(1, y[candidates.sample, None])[:, 0]

    def own_transpose(self, candidates: Candidates, weights: Tensor, y: Tensor) -> Tensor:
        """(D,) in float64: Σ weight Ψ(x, y_i, h) over all candidates, weights (T,): the transpose of `own_scores`, as a map of w."""
        rows = weights.nonzero().flatten()
        return self.sum(candidates, y[candidates.sample[rows]], rows, weights[rows].double())

    def precise(self) -> JointFeatureMap:
        """The same map with scores in float64, whatever the features are in; by default itself."""
        return self

    def size(self, candidates: Candidates) -> int:
        """D, the length of w."""
        nothing = torch.zeros(0, dtype=torch.long, device=candidates.device)
        return len(self.sum(candidates, nothing, nothing))

    def scores_at_origin(self, candidates: Candidates) -> Tensor:
        """(T, K): the scores of w = 0, which are 0, or −inf where a class does not have the candidate."""
        return self.scores(candidates, torch.zeros(self.size(candidates), dtype=torch.float64, device=candidates.device))

    def has(self, candidates: Candidates, y: Tensor) -> Tensor:
        """(T,) whether each candidate exists for its sample's class y (n,)."""
        return self.scores_at_origin(candidates).gather(1, y[candidates.sample, None])[:, 0] > -torch.inf


class ClassBlocks(JointFeatureMap):
    """The default: the candidate's features in the block of class y, so w is a (K, d) table and a score is one matrix product.

    >>> c = Candidates(torch.eye(2), [2])
    >>> ClassBlocks(2).scores(c, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([[1., 3.],
            [2., 4.]])
    """

    least = torch.float32  # precision of scores

    def __init__(self, n_classes: int):
        self.n_classes = n_classes

    def precise(self) -> ClassBlocks:
        same = copy(self)
        same.least = torch.float64
        return same

    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        return product(candidates.features, w.reshape(self.n_classes, -1), self.least)

    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        features = candidates.features
        blocks = torch.zeros(self.n_classes, features.shape[1], dtype=torch.float64, device=features.device)
        step = rows_at_a_time(features)
        for start in range(0, len(rows), step):
            part = take(features, rows[start : start + step]).to(torch.float64)
            if weight is not None:
                part = part * weight[start : start + step, None]
            blocks.index_add_(0, y[start : start + step], part)
        return blocks.flatten()

    def scores_at_origin(self, candidates: Candidates) -> Tensor:
        dtype = torch.promote_types(candidates.features.dtype, self.least)
        return torch.zeros(1, dtype=dtype, device=candidates.device).expand(candidates.n_candidates, self.n_classes)  # one number

    def vectors(self, candidates: Candidates, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        chosen = take(candidates.features, rows)
        return chosen.to(torch.promote_types(chosen.dtype, self.least)), y

    def stored_vectors(self, candidates: Candidates) -> Tensor | None:
        return candidates.features

    def mixtures(self, candidates: Candidates, y: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return mixed_features(candidates, weights), y

    def own_scores(self, candidates: Candidates, w: Tensor, y: Tensor) -> Tensor:
        blocks, runs = w.reshape(self.n_classes, -1), self._runs(candidates, y)
        if runs is None and is_mapped(candidates.features) and not blocks.requires_grad:
            return _own_product(candidates.features, blocks, y[candidates.sample], self.least)
        if runs is None:
            return super().own_scores(candidates, w, y)
        return torch.cat([product(candidates.features[a:b], blocks[k, None], self.least)[:, 0] for k, a, b in runs])

    def own_transpose(self, candidates: Candidates, weights: Tensor, y: Tensor) -> Tensor:
        runs, features = self._runs(candidates, y), candidates.features
        if runs is None:
            step = rows_at_a_time(features)
            pairs = zip(weights.split(step), y[candidates.sample].split(step), strict=True)
            tables = (part.new_zeros(len(part), self.n_classes).scatter(1, own[:, None], part[:, None]) for part, own in pairs)
            return _transposed_product(features, tables, self.n_classes).flatten()
        total = torch.zeros(self.n_classes, features.shape[1], dtype=torch.float64, device=features.device)
        for k, a, b in runs:
            total[k] += transposed_product(features[a:b], weights[a:b, None])[0]
        return total.flatten()

    def _runs(self, candidates: Candidates, y: Tensor) -> list[tuple[int, int, int]] | None:
        """Class, first and last packed row of runs of samples of one class; None if there are many.

        Where samples are sorted by class, each class needs one product with its own rows only, K times less work.
        """
        runs = candidates.runs(y)
        return None if runs is None or len(runs) > 2 * self.n_classes else runs


def mixed_features(candidates: Candidates, weights: Tensor) -> Tensor:
    """(n, d) in float32 at least: Σ_h weight_h x_h over each sample's candidates, weights (T,); by chunks.

    >>> mixed_features(Candidates(torch.eye(3), [2, 1]), torch.tensor([0.25, 0.75, 1.0]))
    tensor([[0.2500, 0.7500, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    features, sample, start = candidates.features, candidates.sample, 0
    out = features.new_zeros(len(candidates), features.shape[1], dtype=torch.promote_types(features.dtype, torch.float32))
    for part in row_chunks(features):
        own, weight = sample[start : start + len(part)], weights[start : start + len(part)].to(out.dtype)
        place = torch.arange(len(part), device=part.device)
        # A sample's rows are one bag, or several if there are many, since a long sum in float32 loses digits.
        bags = ((own.diff(prepend=own[:1]) != 0) | (place % BAG == 0)).nonzero().flatten()
        sums = torch.nn.functional.embedding_bag(place, part.to(out.dtype), bags, mode="sum", per_sample_weights=weight)
        out.index_add_(0, own[bags], sums)
        start += len(part)
    return out


def product(features: Tensor, table: Tensor, least: torch.dtype = torch.float32) -> Tensor:
    """features @ tableᵀ, (T, d) × (K, d) → (T, K), in `least` at least; by chunks where features are mapped or must be widened.

    >>> product(torch.ones(1, 2, dtype=torch.float16), torch.tensor([[1.0, 2.0]]))
    tensor([[3.]])
    """
    if features.requires_grad:  # widened whole, since the graph holds them anyway
        features = features.to(torch.promote_types(features.dtype, least))
    dtype = torch.promote_types(features.dtype, least)
    if features.dtype == dtype and not is_mapped(features):
        table = table.to(dtype)
        return thin_product(features, table) if suits(features, table) else features @ table.T
    return _ChunkedProduct.apply(features, table.to(dtype))


def _own_product(features: Tensor, table: Tensor, own: Tensor, least: torch.dtype) -> Tensor:
    """(T,): of features @ tableᵀ the column `own` (T,) in each row, without the others in memory."""
    dtype, start = torch.promote_types(features.dtype, least), 0
    # Written into one array: many small arrays would fragment the heap.
    out = features.new_empty(len(features), dtype=dtype)
    for part in row_chunks(features):
        rows = slice(start, start + len(part))
        out[rows] = product(part.to(dtype), table).gather(1, own[rows, None])[:, 0]
        start += len(part)
    return out


def transposed_product(features: Tensor, weights: Tensor) -> Tensor:
    """weightsᵀ @ features, (T, K) × (T, d) → (K, d), summed over chunks in float64.

    >>> transposed_product(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [0.5]]))
    tensor([[2.5000, 4.0000]], dtype=torch.float64)
    """
    return _transposed_product(features, weights.split(rows_at_a_time(features)), weights.shape[1])


def _transposed_product(features: Tensor, weights: Iterable[Tensor], n_columns: int) -> Tensor:
    """The same for weights that come in chunks."""
    total = torch.zeros(n_columns, features.shape[1], dtype=torch.float64, device=features.device)
    for part, weight in zip(row_chunks(features), weights, strict=True):
        part = part.to(torch.promote_types(part.dtype, torch.float32))
        weight = weight.to(part.dtype)
        total += thin_transposed(part, weight) if suits(part, weight.T) else weight.T @ part
    return total


class _ChunkedProduct(torch.autograd.Function):
    """A product that never holds a widened copy of the features, nor a whole mapped file, forwards or backwards."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(features)
        table = table.detach()
        out, start = table.new_empty(len(features), len(table)), 0
        for part in row_chunks(features):
            part, into = part.to(table.dtype), out[start : start + len(part)]
            if suits(part, table):
                thin_product(part, table, into)
            else:
                torch.mm(part, table.T, out=into)
            start += len(part)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (features,) = ctx.saved_tensors
        pieces = zip(grads[0].split(rows_at_a_time(features)), row_chunks(features), strict=True)
        return None, torch.stack([g.T @ part.to(g.dtype) for g, part in pieces]).sum(0)
