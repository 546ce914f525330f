"""Ψ of one class: it is somewhere in the picture, or it is not there."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.joint import JointFeatureMap, mixed_features, product, transposed_product
from lvmdc.mapped import rows_at_a_time, take
from lvmdc.segments import segment_sum

ABSENT, PRESENT = 0, 1


class PresenceMap(JointFeatureMap):
    """Ψ(x, y, h) for y = 1, the class is in the picture, in candidate h, and y = 0, it is not.

        w·Ψ(x, 1, h) = u·φ(x, h) + s b,    w·Ψ(x, 0) = 0,    w = (u, b)

    with φ the candidate's features and a bias b in units of s = `bias`, whose norm counts the less the larger s is. What is not there has
    no place, so the first candidate alone stands for the h of y = 0. A score is therefore positive where the class is predicted.

    >>> c = Candidates(torch.tensor([[1.0], [3.0]]), [2])
    >>> PresenceMap().scores(c, torch.tensor([2.0, -1.0]))
    tensor([[0., 1.],
            [-inf, 5.]])
    """

    def __init__(self, bias: float = 1.0):
        if not bias > 0:
            raise ValueError(f"bias must be positive, but it is {bias}")
        self.bias = bias

    def __repr__(self) -> str:
        return f"PresenceMap(bias={self.bias})"

    def present_scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        """(T, K'): w·Ψ(x, 1, h) for each of the rows of w (K', d + 1)."""
        return product(candidates.features, w[:, :-1]) + (self.bias * w[:, -1]).to(
            torch.promote_types(candidates.features.dtype, torch.float32)
        )

    def scores(self, candidates: Candidates, w: Tensor) -> Tensor:
        own = self.present_scores(candidates, w.reshape(1, -1))[:, 0]
        none = torch.full_like(own, -torch.inf).index_fill(0, candidates.offsets, 0.0)
        return torch.stack([none, own], dim=1)

    def sum(self, candidates: Candidates, y: Tensor, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = torch.ones(len(rows), dtype=torch.float64, device=rows.device) if weight is None else weight.double()
        weight = weight * (y == PRESENT)
        total = torch.zeros(candidates.n_features, dtype=torch.float64, device=rows.device)
        step = rows_at_a_time(candidates.features)
        for start in range(0, len(rows), step):
            total += weight[start : start + step] @ take(candidates.features, rows[start : start + step]).double()
        return torch.cat([total, self.bias * weight.sum()[None]])

    def vectors(self, candidates: Candidates, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        chosen = take(candidates.features, rows)
        chosen = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
        there = (y == PRESENT)[:, None].to(chosen.dtype)
        return torch.cat([chosen * there, self.bias * there], dim=1), torch.zeros_like(rows)

    def mixtures(self, candidates: Candidates, y: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        mixed, there = mixed_features(candidates, weights), (y == PRESENT)[:, None]
        bias = self.bias * segment_sum(weights.double(), candidates.counts)[:, None].to(mixed.dtype)
        return torch.cat([mixed, bias], dim=1) * there, torch.zeros_like(y)

    def own_scores(self, candidates: Candidates, w: Tensor, y: Tensor) -> Tensor:
        there = (y == PRESENT)[candidates.sample]
        own = self.present_scores(candidates, w.reshape(1, -1))[:, 0]
        none = torch.full_like(own, -torch.inf).index_fill(0, candidates.offsets, 0.0)
        return torch.where(there, own, none)

    def own_transpose(self, candidates: Candidates, weights: Tensor, y: Tensor) -> Tensor:
        there = weights * (y == PRESENT)[candidates.sample]
        features = transposed_product(candidates.features, there[:, None])[0]
        return torch.cat([features, self.bias * there.double().sum()[None]])
