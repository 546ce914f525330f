"""One class as a latent problem over all pictures: is it there, and where?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.base import clone
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.detection.calibration import calibrate
from lvmdc.detection.labels import balanced
from lvmdc.detection.presence import ABSENT, PRESENT, PresenceMap
from lvmdc.learners import DISC
from lvmdc.learners.base import LatentLearner
from lvmdc.losses import CostLoss, OverlapLoss
from lvmdc.segments import segment_argmax, segment_max


def class_learner(learner: LatentLearner | None, miss_cost: float, bias: float = 1.0) -> LatentLearner:
    """A copy of the learner, DISC where none is given, with the Δ and the Ψ of `Detector`; its own loss, or the overlap loss, is Δ'.

    >>> class_learner(None, miss_cost=2.0).joint
    PresenceMap(bias=1.0)
    """
    if miss_cost <= 0:
        raise ValueError(f"miss_cost must be positive, or 'balanced', but it is {miss_cost}")
    made: LatentLearner = DISC() if learner is None else clone(learner)
    latent = OverlapLoss() if made.loss is None else made.loss
    return made.set_params(loss=CostLoss([[0.0, 1.0], [miss_cost, 0.0]], latent), joint=PresenceMap(bias), n_classes=2)


@dataclass(frozen=True)
class ClassProblem:
    """Pictures with the labels of one class, and what is to learn from them; pictures of which nothing is told are left out.

    Args:
        learner: of `class_learner`; copies of it learn.
        column: (n,) labels: 1 the class is there, −1 it is not, 0 not told.

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
        told = balanced(self.column)
        y = torch.where(self.column[told] == 1, PRESENT, ABSENT)
        whole = torch.equal(told, torch.arange(len(self.column), device=told.device))
        part = self.candidates if whole else self.candidates.subset(told)
        known = None if places is None else torch.where(y == PRESENT, places[told], -1)
        own = clone(self.learner)
        if first is None:
            return own.fit(part, y, known)
        n_init = own.n_init
        begun = torch.where(y == PRESENT, first[told], 0)
        found = clone(self.learner).set_params(init="given", n_init=1).fit(part, y, known, h_init=begun)
        if n_init > 1:
            other = own.set_params(n_init=n_init - 1).fit(part, y, known)
            found = other if other.objective_ < found.objective_ else found
        return found

    def calibrated(self, scores: Tensor, folds: int) -> Tensor:
        """(a, b) of `calibrate`, for a w that gives candidates the scores (T,). With h held where it finds the class the problem is convex,
        and one quick start is enough."""
        c, found = self.candidates, segment_argmax(scores, self.candidates.counts)
        quick, psi = clone(self.learner).set_params(init="uniform", n_init=1), self.learner.joint
        assert isinstance(psi, PresenceMap)

        def held_out(index: Tensor) -> Tensor:
            rest = self.column.clone()
            rest[index.to(rest.device)] = 0
            w = ClassProblem(quick, c, rest).fit(places=c.index(found)).coef_
            part = c.subset(index)
            return segment_max(psi.present_scores(part, w.reshape(1, -1))[:, 0], part.counts)

        return calibrate(self.column, scores[found], held_out, folds)
