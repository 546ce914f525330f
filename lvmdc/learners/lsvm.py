"""The latent SVM (LSVM), the iterative latent SVM (ILSVM), and the structural SVM with known h (Supervised)."""

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import best, own_class
from lvmdc.learners.base import LatentLearner
from lvmdc.learners.state import BlockTraining
from lvmdc.objective import Objective
from lvmdc.segments import segment_argmax, segment_max

ROUNDS = 5  # of CCCP in an outer iteration of LSVM, so that a killed training loses little
MAX_ROUNDS = 100  # the most of CCCP in an outer iteration of the others; a limit that is hardly ever met
PATH_ROUNDS = 3  # the same after another C: both blocks have far to go, and an exact w for a posterior about to move is in vain


class BlockLearner(LatentLearner):
    """Block coordinate descent: an outer iteration is the w block (13), then the posterior block; learning stops when together they gain
    less than C·ε. A subclass sets the posterior in `_step_posterior`, and says in `_conditional` what it is after learning."""

    supports_ranks = True
    _rounds = MAX_ROUNDS

    @abstractmethod
    def _step_posterior(self) -> float:
        """Set `self._training.p`, the posterior (T,) for the current w; by how much that lowered its own objective."""

    def _same_losses(self, before: Tensor) -> bool:
        """Whether the posterior gives the losses (T, K) that it gave before, on all ranks."""
        t = self._training
        return distributed.highest(t.candidates, float(not torch.equal(before, t.expected_loss()))) == 0

    def _objective(self) -> Objective:
        return self._training.objective()

    def go_on_from(self, last: Self) -> None:
        super().go_on_from(last)
        self._rounds = PATH_ROUNDS
        self._follow_C(self.C / last.C)  # w is the best for another C, so that the posterior has the more to gain

    def _follow_C(self, growth: float) -> None:
        """The posterior after C grew by a factor, before w changes: that need not be exact."""
        self._step_posterior()

    def _step(self) -> dict[str, float]:
        t = self._training
        expected_loss = t.expected_loss()
        w_block = t.cccp.run(lambda latents: expected_loss, self._rounds)
        gained = self._step_posterior()
        decrease = w_block.decrease + gained
        if w_block.converged and gained > 0:
            t.cccp.expect(gained)  # what the losses of another posterior let w gain is of the same order
        # A w block that has converged has nothing left to do where the posterior gives the same losses, as when Δ does not depend on h.
        self.converged_ = w_block.converged and (decrease <= t.cccp.tolerance or self._same_losses(expected_loss))
        row = {**self._objective().terms(), **t.measures()}
        return row | {"decrease": decrease, "w_decrease": w_block.decrease, "posterior_decrease": gained, "gap": w_block.gap}


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
        own = self.joint.own_scores(candidates, self.w.flatten().to(candidates.device), y)
        rows = segment_argmax(own, candidates.counts)
        return torch.full_like(own, -torch.inf).index_fill(0, rows, 0.0)


class LSVM(LatentLearner):
    """½‖w‖² + C/n Σ_i ξ_i, where ξ_i measures the loss from h*_i = argmax_h w·Ψ(x_i, y_i, h): CCCP.

    For a loss of the label alone this is Algorithm 1. For others, h*_i is also the true h in Δ(y_i, h*_i, y, h) (section 6.1), and learning
    ends when that objective can no longer be lowered. An outer iteration is a few rounds. A prior of h counts in the start alone.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = LSVM(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    supports_ranks = supports_batches = True
    _training: BlockTraining

    def _step(self) -> dict[str, float]:
        t = self._training
        done = t.cccp.run(lambda latents: t.expected_loss(latents.p.to(t.p)), ROUNDS)
        t.p = t.cccp.latents.p.to(t.p)
        self.converged_ = done.converged
        return {**t.objective().terms(), **t.measures(), "decrease": done.decrease, "gap": done.gap}

    def _conditional(self) -> ConditionalModel:
        return Imputed(self.coef_, self.joint_)


class ILSVM(BlockLearner):
    """Alternates a latent SVM whose loss is measured from fixed latents h'_i, and h'_i = argmin_h' Δ(y_i, h', y_i(w), h_i(w)).

        ½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ(x_i, y, h) + Δ(y_i, h'_i, y, h)] − max_h w·Ψ(x_i, y_i, h)

    It is DISC with P_θ restricted to deltas (Observation 3). A prior of h counts in the start alone: as P_θ ∝ π exp(θ·Φ / T) becomes a
    delta, T → 0, π loses its weight. Of several equally good h', as for every sample of a wrong class, the one that w scores best is taken.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = ILSVM(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    def _step_posterior(self) -> float:
        t = self._training
        y_hat, predicted = best(t.candidates, t.point.scores)
        before = t.loss.expected_at(t.p, y_hat, predicted)
        score = own_class(t.candidates, t.point.scores, t.y)
        loss = t.loss.loss_against(y_hat, predicted)  # (T,): of each h' as the truth
        loss = loss.masked_fill(score == -torch.inf, torch.inf)  # never one that the class lacks
        least = segment_max(-loss, t.candidates.counts)[t.candidates.sample]
        rows = segment_argmax(score.masked_fill(-loss < least, -torch.inf), t.candidates.counts)
        t.p = t.delta(torch.where(t.known >= 0, t.known, rows))
        return self.C * t.mean(before - t.loss.expected_at(t.p, y_hat, predicted))

    def _conditional(self) -> ConditionalModel:
        return Imputed(self.coef_, self.joint_)


class Supervised(LSVM):
    """½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ(x_i,y,h) + Δ(y_i,h_i,y,h)] − w·Ψ(x_i,y_i,h_i), with every h_i known: the convex problem that weak
    supervision is compared with.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = Supervised(C=10.0).fit(Candidates(x, [2, 2]), [0, 1], h=[0, 0])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    uses_known_h = True
