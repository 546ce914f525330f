"""LSVM, ILSVM and the supervised bound."""

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import best, own_class
from lvmdc.learners.base import LatentLearner
from lvmdc.objective import Objective
from lvmdc.segments import segment_argmax, segment_max

# Block coordinate descent: w by CCCP under a fixed posterior, then the posterior under a fixed w.

MAX_ROUNDS = 100  # CCCP rounds in one outer iteration at most
# After another C both blocks have far to go: w is not led to the end of a posterior that is about to move.
PATH_ROUNDS = 3


class BlockLearner(LatentLearner):
    """An outer iteration is the w block (13), then the posterior block; learning stops when together they gain less than C·ε."""

    over_ranks = True
    _rounds = MAX_ROUNDS

    @abstractmethod
    def _step_posterior(self) -> float:
        """The posterior block; what it gained of its own objective."""

    @abstractmethod
    def _objective(self) -> Objective: ...

    def go_on_from(self, last: Self) -> None:
        super().go_on_from(last)
        self._rounds = PATH_ROUNDS
        self._follow_C(self.C / last.C)  # w stands at what was best for another C, so that the posterior has the more to gain

    def _follow_C(self, growth: float) -> None:
        """The posterior after C grew by a factor, before w did anything: that need not be exact."""
        self._step_posterior()

    def _step(self) -> dict[str, float]:
        t = self._training
        expected_loss = t.expected_loss()
        w_block = t.cccp.run(lambda truth: expected_loss, self._rounds)
        gained = self._step_posterior()
        decrease = w_block.decrease + gained
        if w_block.converged and gained > 0:
            t.cccp.expect(gained)  # what the losses of another posterior let w gain is of the same order
        # A w block that has converged has nothing left to do where the posterior asks for the same losses, as when Δ does not depend on h.
        same = distributed.highest(t.candidates, float(not torch.equal(expected_loss, t.expected_loss()))) == 0
        over = decrease <= t.cccp.tolerance or same
        self.converged_, self.stuck_ = w_block.converged and over, w_block.stuck and over
        row = {**self._objective().terms(), **t.measures()}
        return row | {"decrease": decrease, "w_decrease": w_block.decrease, "posterior_decrease": gained, "gap": w_block.gap}


# The latent structural SVM, adapted to losses that depend on h as in section 6.1.

ROUNDS = 5  # of CCCP in an outer iteration, so that a killed training loses little


class Imputed(ConditionalModel):
    """All mass on argmax_h w·Ψ(x, y, h): what a latent SVM believes of h.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> Imputed(torch.tensor([1.0, 2.0]), ClassBlocks(1))(Candidates(torch.eye(2), [2]), [0]).p
    tensor([0., 1.])
    """

    def __init__(self, w: Tensor, joint: JointFeatureMap):
        super().__init__()
        self.w, self.joint = w, joint

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        own = self.joint.own_scores(candidates, self.w.flatten(), y)
        rows = segment_argmax(own, candidates.counts)
        return torch.full_like(own, -torch.inf).index_fill(0, rows, 0.0)


class LSVM(LatentLearner):
    """½‖w‖² + C/n Σ_i ξ_i, where ξ_i measures the loss from h*_i = argmax_h w·Ψ(x_i, y_i, h): CCCP.

    For a loss of the label alone this is Algorithm 1. For others, h*_i also stands for the truth in Δ(y_i, h*_i, y, h), and learning
    ends when that objective can no longer be lowered. An outer iteration is a few rounds. A prior of h counts in the start alone.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = LSVM(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    over_ranks = True

    def _begin(self) -> None:
        """The posterior starts where h* does."""

    def _step(self) -> dict[str, float]:
        t = self._training
        rounded = t.cccp.run(lambda truth: t.expected_loss_of(truth.p.to(t.p)), ROUNDS)
        t.p = t.cccp.truth.p.to(t.p)
        self.converged_, self.stuck_ = rounded.converged, rounded.stuck
        return {**t.objective().terms(), **t.measures(), "decrease": rounded.decrease, "gap": rounded.gap}

    def _conditional(self) -> ConditionalModel:
        return Imputed(self.coef_, self.joint_)


# The iterative latent SVM: DISC with P_θ restricted to deltas (Observation 3).


class ILSVM(BlockLearner):
    """Alternates a latent SVM whose loss is measured from fixed latents h'_i, and h'_i = argmin_h' Δ(y_i, h', y_i(w), h_i(w)).

        ½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ(x_i, y, h) + Δ(y_i, h'_i, y, h)] − max_h w·Ψ(x_i, y_i, h)

    A prior of h counts in the start alone: as P_θ ∝ π exp(θ·Φ / T) becomes a delta, T → 0, π loses its weight.
    Where several h' are as good, as they all are for a sample whose class is predicted wrongly, the one that w scores best is taken.

    >>> from lvmdc import Candidates
    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = ILSVM(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    def _begin(self) -> None:
        """The posterior starts where h* does."""

    def _objective(self) -> Objective:
        return self._training.objective()

    def _step_posterior(self) -> float:
        t = self._training
        y_hat, predicted = best(t.candidates, t.point.scores)
        before = t.bound.expected_at(t.p, y_hat, predicted)
        score = own_class(t.candidates, t.point.scores, t.y)
        loss = t.bound.loss_against(y_hat, predicted)  # (T,): of each h' as the truth
        loss = loss.masked_fill(score == -torch.inf, torch.inf)  # never one that the class lacks
        least = segment_max(-loss, t.candidates.counts)[t.candidates.sample]
        rows = segment_argmax(score.masked_fill(-loss < least, -torch.inf), t.candidates.counts)
        t.p = t.delta(torch.where(t.known >= 0, t.known, rows))
        after = t.bound.expected_at(t.p, y_hat, predicted)
        return self.C * t.mean(before - after)

    def _conditional(self) -> ConditionalModel:
        return Imputed(self.coef_, self.joint_)


# The fully supervised structural SVM: h is known for every sample.


class Supervised(LSVM):
    """½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ(x_i,y,h) + Δ(y_i,h_i,y,h)] − w·Ψ(x_i,y_i,h_i): convex, the bound that weak supervision is measured by.

    >>> import torch
    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = Supervised(C=10.0).fit(Candidates(x, [2, 2]), [0, 1], h=[0, 0])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    def fit(
        self,
        candidates: Candidates,
        y: ArrayLike,
        h: ArrayLike | None = None,
        h_init: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> "Supervised":
        """Learn from samples whose outputs y (n,) and latent variables h (n,) are known; a prior of h then changes nothing."""
        super().fit(candidates, y, h, h_init, prior)
        return self

    def _known(self, known: Tensor) -> Tensor:
        if bool((known < 0).any()):
            i = int((known < 0).nonzero()[0])
            raise ValueError(f"Supervised needs h= with the candidate of every sample, but that of sample {i} is unknown")
        return known
