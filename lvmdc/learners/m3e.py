"""Max-margin min-entropy models.

K. Miller, M. P. Kumar, B. Packer, D. Goodman, D. Koller, Max-margin min-entropy models, AISTATS 2012.
"""

import math
from numbers import Real

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import ClassFirst, MinEntropyPrediction, Posterior
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.learners.likelihood import LogLinearLearner
from lvmdc.losses import Loss
from lvmdc.objective import half_square
from lvmdc.solvers.cutting_planes import bundle
from lvmdc.solvers.initial import Init
from lvmdc.solvers.linear import Regularised
from lvmdc.solvers.min_entropy import LinearisedSlack, MinEntropySlack
from lvmdc.solvers.w_block import Point, Solution


class M3E(LogLinearLearner):
    """½‖w‖² + C/n Σ_i max_y [Δ(y_i, y) + H_α(y_i) − H_α(y)]: predicts the class of least Rényi entropy H_α of P_w(y, ·| x), by a margin.

    H_α(y) = 1/(1−α) · log(Σ_h P_w(y, h | x)^α / Σ_h P_w(y, h | x)), P_w(y, h | x) ∝ exp(w·Ψ(x, y, h)), is low where y is likely and its h
    sure. α = 1 is Shannon's entropy, α = ∞ the latent SVM of the label alone. By the concave–convex procedure: the concave parts are
    replaced by their tangents, which are posteriors of h at two temperatures, and the convex rest is solved by a bundle of cutting planes;
    w goes on along the same line while the objective itself still falls. At first the start that `init` names replaces the posterior of
    the true class; a prior of h counts there alone. Where h_i is known, w·Ψ(x_i, y_i, h_i) replaces log Z − H_α(y_i).

    The margin is Δ between classes. A loss that also depends on h inside a class (`ZeroOneLoss`, `OverlapLoss`) is learned from by its
    `class_cost`, and measures in full in `score` and the history; one that depends on h between classes is refused.

    Args (the others are those of `LatentLearner`):
        alpha: α > 0, the order of the entropy; `math.inf` for the latent SVM.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = M3E(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    def __init__(
        self,
        loss: Loss | None = None,
        C: float = 1.0,
        alpha: float = 2.0,
        tol: float = 1e-3,
        init: Init = "likelihood",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 100,
        n_classes: int | None = None,
        joint: JointFeatureMap | None = None,
        memory_budget: int | None = None,
        verbose: bool = False,
    ):
        super().__init__(
            loss, C, tol, init, seed, n_init, max_iter, n_classes=n_classes, joint=joint, memory_budget=memory_budget, verbose=verbose
        )
        self.alpha = alpha

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (isinstance(self.alpha, Real) and self.alpha > 0):
            raise ValueError(f"alpha must be a positive number or infinity, but it is {self.alpha}")

    def _beyond(self) -> bool:
        return not math.isinf(self.alpha)  # there it would no longer be Algorithm 1

    def _risk(self, candidates: Candidates, y: Tensor, known: Tensor) -> MinEntropySlack:
        cost = self.loss_.class_cost(y[:, None], torch.arange(self.n_classes_, device=y.device).expand(len(y), -1))
        if cost is None:
            raise ValueError(f"M3E needs a loss whose Δ between classes does not depend on h, but {self.loss_!r} has no class_cost")
        return MinEntropySlack(candidates, y, known, cost.double().scatter(1, y[:, None], 0.0), float(self.alpha))

    def _convex(self) -> LinearisedSlack:
        t = self._training
        assert isinstance(t.risk, MinEntropySlack)
        return LinearisedSlack(t.risk, t.point.scores, t.start if t.first else None)

    def _solve(self, problem: Regularised, start: Point, tol: float, share: float) -> Solution:
        return bundle(problem, start, tol, share)

    def _predictor(self, w: Tensor) -> ClassFirst:
        return MinEntropyPrediction(w, self.joint_, float(self.alpha))

    def _conditional(self) -> Posterior:
        return Posterior(self.coef_, self.joint_, weighted=False)

    def _terms(self) -> dict[str, float]:
        t = self._training
        return {"w_norm": half_square(t.point.w), "slack": t.mean(t.risk.each(t.point.scores))}
