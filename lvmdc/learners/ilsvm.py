"""The iterative latent SVM: DISC with P_θ restricted to deltas (Observation 3)."""

import torch

from lvmdc.distributions import ConditionalModel
from lvmdc.inference import best, own_class
from lvmdc.learners.blocks import BlockLearner
from lvmdc.learners.lsvm import Imputed
from lvmdc.objective import Objective
from lvmdc.segments import segment_argmax, segment_max


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
