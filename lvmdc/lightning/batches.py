"""Mini-batches of training samples, and the objective (11) on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import Conditional, ConditionalModel, Prediction, score_dtype
from lvmdc.inference import best, best_of_class, best_value, own_class
from lvmdc.learners import DISC, LatentLearner, SoftDISC
from lvmdc.lightning.sparse import Norm, norm_value
from lvmdc.losses import Loss
from lvmdc.losses.base import SubsetLoss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import Objective, slack
from lvmdc.segments import segment_sum
from lvmdc.solvers.soft import SoftProblem, half_squares
from lvmdc.solvers.theta_block import PosteriorProblem, with_known

# Mini-batches: some of the training samples with all that the objective needs of them.

CHUNK_ROWS = 1 << 15  # candidates that are looked at together when the whole training set is measured


@dataclass(frozen=True)
class Batch:
    """Samples (x_i, y_i) with their loss, the start (T,) of h*, and the packed row (n,) of the true h, −1 where it is unknown; `rows`
    (T,) is where their candidates stand in the set.

    Over R ranks a batch B lies on several of them. Each takes its own samples B_r with the weight R |B_r| / |B|, its `share`: the mean over
    ranks of share · 1/|B_r| Σ_{i in B_r} is 1/|B| Σ_{i in B}, and the mean is what ranks take of their gradients.
    """

    bound: ExpectedLoss
    start: Tensor
    known: Tensor
    rows: Tensor
    share: float = 1.0

    @property
    def candidates(self) -> Candidates:
        return self.bound.candidates

    @property
    def y(self) -> Tensor:
        return self.bound.y


class TrainingSet:
    """All training samples on one device, or this rank's, from which batches are taken.

    Args:
        start: (T,) how much of each candidate the first h* holds, from `starting_weights`.
        known: (n,) packed row of the true h where it is known, −1 where not.
        limit: bytes that Δ between the candidates of a batch may take.
    """

    def __init__(
        self, candidates: Candidates, y: Tensor, loss: Loss, n_classes: int, start: Tensor, known: Tensor, limit: int | None = None
    ):
        self.candidates, self.y, self.loss, self.n_classes, self.limit = candidates, y, loss, n_classes, limit
        self.start, self.known = start, known

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> TrainingSet:
        """The same on another device."""
        parts = (self.start.to(device), self.known.to(device), self.limit)
        return TrainingSet(self.candidates.to(device), self.y.to(device), self.loss, self.n_classes, *parts)

    def batch(self, index: Tensor) -> Batch:
        """The samples `index` (m,) of the whole set, or those of them that this rank has.

        >>> from lvmdc import ZeroOneLoss
        >>> c, y, known = Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 1]), torch.tensor([1, -1])
        >>> TrainingSet(c, y, ZeroOneLoss(), 2, torch.ones(3), known).batch(torch.tensor([1, 0])).known
        tensor([-1,  2])
        """
        return self.take(*self.own(index.to(self.candidates.device)))

    def own(self, index: Tensor) -> tuple[Tensor, float]:
        """Which samples (m,) of this rank those of a batch (m',) are, and their `share` of it; where none is, one that counts nothing.
        Where every rank has all samples, each takes some of the batch.

        >>> TrainingSet(Candidates(torch.eye(3), [2, 1]), torch.tensor([0, 1]), None, 2, None, None).own(torch.tensor([1, 0]))
        (tensor([1, 0]), 1.0)
        """
        at, (rank, world) = self.candidates.shard, distributed.ranks()
        if at is None:
            few = len(index) < world  # then each takes all of them, and their mean is the same
            return (index, 1.0) if few else (index[rank::world], world * len(index[rank::world]) / len(index))
        mine = index[(index >= at.samples[at.rank]) & (index < at.samples[at.rank + 1])] - at.first("samples")
        if len(mine) == 0:  # every rank must have a gradient of all parameters
            return index.new_zeros(1), 0.0
        return mine, (len(at.samples) - 1) * len(mine) / len(index)

    def take(self, index: Tensor, share: float = 1.0) -> Batch:
        """The samples `index` (m,) of those that are here."""
        here = self.candidates.subset(index)
        shift = self.candidates.offsets[index] - here.offsets  # (m,): from a row of the batch to one of the set
        rows = torch.arange(here.n_candidates, device=here.device) + shift.repeat_interleave(here.counts)
        known = self.known[index]
        bound = ExpectedLoss(
            SubsetLoss(self.loss, rows + distributed.first_row(self.candidates)), here, self.y[index], self.n_classes, self.limit
        )
        return Batch(bound, self.start[rows], torch.where(known >= 0, known - shift, -1), rows, share)

    def whole(self) -> Batch:
        """All samples that are here; nothing is copied."""
        bound = ExpectedLoss(self.loss, self.candidates, self.y, self.n_classes, self.limit)
        return Batch(bound, self.start, self.known, torch.arange(self.candidates.n_candidates, device=self.candidates.device))

    def chunks(self) -> Iterator[Batch]:
        """Every sample, of this rank, once, in order, few enough at a time."""
        together = max(1, CHUNK_ROWS // int(self.candidates.counts.max()))
        for part in torch.arange(len(self), device=self.candidates.device).split(together):
            yield self.take(part)


# The objective (11) on mini-batches, differentiable in the parameters of both distributions.


class BatchObjective:
    """What a step on a batch B of samples lowers, for P_w and P_θ of any kind:

    ½‖w‖² + C/|B| Σ_i ξ_i(w, θ), in w with θ held, and, for DISC, J/2 ‖θ‖² + C/|B| Σ_i (B_i(w, θ) − β H_i(θ)), in θ with w held.

    The expectation of each over batches is the objective of its block, (13) and (16). B_i is the learner's `theta_bound`. ‖w‖² and
    ‖θ‖² are over all parameters of a module. Without P_θ (LSVM), all mass lies on h*_i = argmax_h w·Ψ(x_i, y_i, h); where h is known,
    on that.

    Args:
        norm: what stands in the place of ½‖w‖²; of another than `l2` no derivative is given, since `DualAveraging` sees to it.
    """

    def __init__(self, learner: LatentLearner, p_w: Prediction, p_theta: ConditionalModel | None, norm: Norm = "l2"):
        self.learner, self.p_w, self.p_theta, self.norm = learner, p_w, p_theta, norm
        self.C = learner.C
        self.J, self.beta = (learner.J, learner.beta) if isinstance(learner, DISC) else (0.0, 0.0)

    @property
    def learns_theta(self) -> bool:
        """Whether P_θ has anything to learn."""
        return self.p_theta is not None and next(self.p_theta.parameters(), None) is not None

    def value(self, batch: Batch, warm: bool = False) -> Tensor:
        """The sum of both, of which each parameter's derivative is that of its own block.

        Args:
            warm: while h* is held at the start, as in the first round of CCCP; θ waits.
        """
        scores = self.p_w.scores(batch.candidates)  # (T, K)
        if not self.learns_theta:
            return self.hinge(batch, scores, self.posterior(batch, scores, warm), warm)
        problem = self.theta_problem(batch, scores.detach())
        p = problem.posterior()
        # A weight of zero, not nothing: where ranks add up their gradients, each waits for those of all parameters.
        theta = 0 * problem.regulariser() if warm else problem.value(p)
        return self.hinge(batch, scores, p.detach(), warm) + theta

    def theta_problem(self, batch: Batch, scores: Tensor) -> PosteriorProblem:
        """What θ lowers, where w has the scores (T, K)."""
        assert isinstance(self.learner, DISC)
        assert self.p_theta is not None
        weights = (self.J, self.C * batch.share, self.beta)
        return PosteriorProblem(self.p_theta, batch.bound, scores, *weights, self.learner.theta_bound, batch.known)

    def theta_terms(self, measured: Objective, loss: float) -> float:
        """The same of all samples: the terms of (11) that have θ in them, with the expected loss (8) for ξ_i if that is what θ lowers."""
        prediction = isinstance(self.learner, DISC) and self.learner.theta_bound == "prediction"
        return measured.theta_norm + self.C * ((loss if prediction else measured.slack) - self.beta * measured.diversity)

    def hinge(self, batch: Batch, scores: Tensor, p: Tensor, warm: bool) -> Tensor:
        """½‖w‖² + C/|B| Σ_i ξ_i under a posterior p (T,); with `warm`, h* in the second term of (9) is the start."""
        expected = batch.bound.expected_loss(p)
        xi = self.held_slacks(batch, scores, expected) if warm else slack(batch.candidates, scores, expected, batch.y, batch.known)
        norm = half_squares(self.p_w) if self.norm == "l2" else 0.0
        return norm + self.C * batch.share * xi.double().mean()

    def held_slacks(self, batch: Batch, scores: Tensor, expected_loss: Tensor) -> Tensor:
        """(n,): ξ_i as it is in (14), where h* is held: at w = 0 every h ties, and the start says which of them is h*."""
        own = own_class(batch.candidates, scores, batch.y).masked_fill(batch.start == 0, 0)
        truth = segment_sum(own * batch.start.to(own.dtype), batch.candidates.counts)
        return best_value(batch.candidates, scores + expected_loss) - truth

    def slacks(self, batch: Batch, scores: Tensor, p: Tensor) -> Tensor:
        """(n,): ξ_i (9) under a posterior p (T,)."""
        return slack(batch.candidates, scores, batch.bound.expected_loss(p), batch.y, batch.known)

    def posterior(self, batch: Batch, scores: Tensor, warm: bool = False) -> Tensor:
        """(T,): P_θ(h | x_i, y_i), without a derivative."""
        if warm or self.p_theta is not None:
            return self.held_posterior(batch)
        rows = torch.where(batch.known >= 0, batch.known, best_of_class(batch.candidates, scores, batch.y))
        return delta_at(scores, rows)

    @torch.no_grad()
    def held_posterior(self, batch: Batch) -> Tensor:
        """(T,): the same while h* is held: the start, where there is no P_θ."""
        if self.p_theta is None:
            return batch.start.to(score_dtype(batch.candidates))
        return with_known(self.p_theta.log_prob(batch.candidates, batch.y).exp(), batch.bound, batch.known)

    @torch.no_grad()
    def measure(self, samples: TrainingSet) -> tuple[Objective, dict[str, float]]:
        """(11) by its terms on the samples of all ranks, and the means of the prediction's expected loss (8), its class error and the
        posterior's entropy; one pass over the features in chunks."""
        sums = torch.zeros(5, dtype=torch.float64)
        for batch in samples.chunks():
            scores = self.p_w.scores(batch.candidates)
            p = self.posterior(batch, scores)
            y_hat, rows = best(batch.candidates, scores)
            parts = (
                self.slacks(batch, scores, p),
                batch.bound.diversity(p),
                batch.bound.expected_at(p, y_hat, rows),
                y_hat != batch.y,
                Conditional(batch.candidates, batch.y, p).entropy(),
            )
            sums += torch.stack([part.double().sum() for part in parts]).cpu()
        whole = distributed.total(samples.candidates, sums) / distributed.n_samples(samples.candidates)
        xi, diversity, loss, error, entropy = whole.tolist()
        theta_norm = self.J * float(half_squares(self.p_theta)) if self.p_theta is not None else 0.0
        (w_norm,) = [half_squares(self.p_w)] if self.norm == "l2" else [norm_value(self.norm, w) for w in self.p_w.parameters()]
        objective = Objective(float(w_norm), theta_norm, xi, diversity, self.C, self.beta)
        return objective, {"loss": loss, "error": error, "entropy": entropy}


class SoftBatchObjective(BatchObjective):
    """The same where the prediction is a distribution too (`SoftDISC`): ½‖w‖² + J/2 ‖θ‖² + C/|B| Σ_i D_i (2), in w and θ together."""

    def value(self, batch: Batch, warm: bool = False) -> Tensor:
        """As a function of both; while `warm`, P_θ is the start, and θ waits."""
        problem = self._soft(batch, batch.start.to(score_dtype(batch.candidates)) if warm else None)
        assert self.p_theta is not None
        # A weight of zero, not nothing: where ranks add up their gradients, each waits for those of all parameters.
        waiting = (1 if warm else 0) * self.J * half_squares(self.p_theta)
        whole = problem.value() - waiting
        return whole if self.norm == "l2" else whole - half_squares(self.p_w)

    def slacks(self, batch: Batch, scores: Tensor, p: Tensor) -> Tensor:
        return self._soft(batch, None).against(scores, p)

    def _soft(self, batch: Batch, start: Tensor | None) -> SoftProblem:
        assert isinstance(self.learner, SoftDISC)
        assert self.p_theta is not None
        weights = (self.C * batch.share, self.J, self.beta, self.learner.temperature)
        return SoftProblem(self.p_w, self.p_theta, batch.bound, batch.known, *weights, start)


def batch_objective(learner: LatentLearner, p_w: Prediction, p_theta: ConditionalModel | None, norm: Norm = "l2") -> BatchObjective:
    """What the learner's own objective is on mini-batches."""
    kind = SoftBatchObjective if isinstance(learner, SoftDISC) else BatchObjective
    return kind(learner, p_w, p_theta, norm)


def delta_at(scores: Tensor, rows: Tensor) -> Tensor:
    """(T,): all mass of each sample on one of its packed rows (n,), in the precision of the scores (T, K).

    >>> delta_at(torch.zeros(3, 2), torch.tensor([1, 2]))
    tensor([0., 1., 1.])
    """
    return torch.zeros_like(scores[:, 0]).index_fill(0, rows, 1.0)
