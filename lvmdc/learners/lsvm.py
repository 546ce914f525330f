"""The latent structural SVM, adapted to losses that depend on h as in section 6.1."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel
from lvmdc.joint import JointFeatureMap
from lvmdc.learners.base import LatentLearner
from lvmdc.segments import segment_argmax

ROUNDS = 5  # of CCCP in an outer iteration, so that a killed training loses little


class Imputed(ConditionalModel):
    """All mass on argmax_h w·Ψ(x, y, h): what a latent SVM believes of h.

    >>> from lvmdc.joint import ClassBlocks
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
