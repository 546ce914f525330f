"""One class as a latent problem over all images: is it there, and where? And Ψ of that problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.feature_maps import JointFeatureMap, mixed_features, product, transposed_product
from lvmdc.learners import DISC
from lvmdc.learners.base import LatentLearner
from lvmdc.losses import CostLoss, OverlapLoss
from lvmdc.segments import segment_argmax, segment_max, segment_sum
from lvmdc.storage.mapped import rows_at_a_time, take
from lvmdc.vision.detection.calibration import calibrate


def as_table(candidates: Candidates, values: ArrayLike, name: str) -> Tensor:
    """(n, K) whole numbers of images × classes, refused where they are not of these images.

    >>> as_table(Candidates(torch.zeros(2, 1), [1, 1]), [[1, -1]], "labels")
    Traceback (most recent call last):
    ValueError: labels must have shape (2, K), images × classes, but it has shape (1, 2)
    """
    table = as_tensor(values).to(candidates.device)
    if table.dim() != 2 or len(table) != len(candidates):
        raise ValueError(f"{name} must have shape ({len(candidates)}, K), images × classes, but it has shape {tuple(table.shape)}")
    return table.long()


def balanced(column: Tensor) -> Tensor:
    """The images that a class is learned from, by their labels (n,): all whose label is known; those without
    it are repeated until they are as many as those with it.

    >>> balanced(torch.tensor([1, 1, 0, 1, -1]))
    tensor([0, 1, 3, 4, 4, 4])
    """
    known, lack = (column != 0).nonzero().flatten(), (column == -1).nonzero().flatten()
    missing = int((column == 1).sum()) - len(lack)
    more = lack.repeat(1 + max(0, missing) // len(lack))[: max(0, missing)]
    return torch.cat([known, more]).sort(stable=True).values


ABSENT, PRESENT = 0, 1


class PresenceMap(JointFeatureMap):
    """Ψ(x, y, h) for y = 1, the class is in the image, in candidate h, and y = 0, it is not.

        w·Ψ(x, 1, h) = u·φ(x, h) + s b,    w·Ψ(x, 0) = 0,    w = (u, b)

    with φ the candidate's features and a bias b in units of s = `bias`, whose norm counts the less the larger s is. For y = 0
    there is no h, so that the first candidate alone has a score. A score is therefore positive where the class is predicted.

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


def class_learner(learner: LatentLearner | None, miss_cost: float, bias: float = 1.0) -> LatentLearner:
    """A copy of the learner, DISC where none is given, with the Δ and the Ψ of `Detector`; its own loss, or the overlap loss, is Δ'.

    >>> class_learner(None, miss_cost=2.0).joint
    PresenceMap(bias=1.0)
    """
    if miss_cost <= 0:
        raise ValueError(f"miss_cost must be positive, or 'balanced', but it is {miss_cost}")
    made: LatentLearner = DISC() if learner is None else learner.clone()
    latent = OverlapLoss() if made.loss is None else made.loss
    return made.set_params(loss=CostLoss([[0.0, 1.0], [miss_cost, 0.0]], latent), joint=PresenceMap(bias), n_classes=2)


@dataclass(frozen=True)
class ClassProblem:
    """Images with the labels of one class, and what is to learn from them; images of which nothing is known are left out.

    Args:
        learner: of `class_learner`; copies of it learn.
        column: (n,) labels: 1 the class is there, −1 it is not, 0 unknown.

    >>> x = torch.tensor([[3.0], [0], [0], [0]])
    >>> c = Candidates(x, [2, 2], [[0, 0, 2, 2], [4, 0, 6, 2]] * 2)
    >>> problem = ClassProblem(class_learner(DISC(C=10.0, init="uniform"), miss_cost=2.0), c, torch.tensor([1, -1]))
    >>> problem.fit().predict(c)[0].tolist()
    [1, 0]
    """

    learner: LatentLearner
    candidates: Candidates
    column: Tensor

    def fit(self, places: Tensor | None = None, first: Tensor | None = None) -> LatentLearner:
        """Learn; h is known where `places` (n,) says so, −1 elsewhere, and begins at `first` (n,), if given, and, with an `n_init` above 1,
        at the learner's own starts too: the one of lowest objective."""
        chosen = balanced(self.column)
        y = torch.where(self.column[chosen] == 1, PRESENT, ABSENT)
        whole = torch.equal(chosen, torch.arange(len(self.column), device=chosen.device))
        part = self.candidates if whole else self.candidates.subset(chosen)
        known = None if places is None else torch.where(y == PRESENT, places[chosen], -1)
        own = self.learner.clone()
        if first is None:
            return own.fit(part, y, known)
        n_init = own.n_init
        begun = torch.where(y == PRESENT, first[chosen], 0)
        found = self.learner.clone().set_params(init="given", n_init=1).fit(part, y, known, h_init=begun)
        if n_init > 1:
            other = own.set_params(n_init=n_init - 1).fit(part, y, known)
            found = other if other.objective_ < found.objective_ else found
        return found

    def calibrated(self, scores: Tensor, folds: int) -> Tensor:
        """(a, b) of `calibrate`, for a w that gives candidates the scores (T,). With h held where it finds the class the problem is convex,
        and one quick start is enough."""
        c, found = self.candidates, segment_argmax(scores, self.candidates.counts)
        quick, psi = self.learner.clone().set_params(init="uniform", n_init=1), self.learner.joint
        assert isinstance(psi, PresenceMap)

        def held_out(index: Tensor) -> Tensor:
            rest = self.column.clone()
            rest[index.to(rest.device)] = 0
            w = ClassProblem(quick, c, rest).fit(places=c.index(found)).coef_
            part = c.subset(index)
            return segment_max(psi.present_scores(part, w.reshape(1, -1))[:, 0], part.counts)

        return calibrate(self.column, scores[found], held_out, folds)
