"""Expectation maximisation: the likelihood of y, with h summed out.

A. P. Dempster, N. M. Laird, D. B. Rubin, Maximum likelihood from incomplete data via the EM algorithm, J. R. Statist. Soc. B 39, 1977.
"""

from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.distributions import ClassFirst, MarginalPrediction
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.learners.likelihood import LogLinearLearner
from lvmdc.losses import Loss
from lvmdc.objective import half_square
from lvmdc.solvers.initial import Init
from lvmdc.solvers.lbfgs import quasi_newton
from lvmdc.solvers.likelihood import ExpectedLikelihood, Likelihood, class_prior
from lvmdc.solvers.linear import Regularised
from lvmdc.solvers.w_block import Point, Solution


class EM(LogLinearLearner):
    """½‖w‖² + C/n Σ_i −log P_w(y_i | x_i), P_w(y, h | x) ∝ π(h | x, y) exp(w·Ψ(x, y, h)), by expectation maximisation.

    The E step takes p_i(h) = P_w(h | x_i, y_i), at first the start that `init` names; the M step lowers the convex
    ½‖w‖² + C/n Σ_i Σ_h p_i(h) · −log P_w(y_i, h | x_i) by L-BFGS, and w goes on along the same line while the objective itself still falls.
    The prior π of h is scaled to a mean weight of one for each sample and class, so that it says nothing of y (see `class_prior`); it is
    part of learning and of `predict_latent_proba`, while (y, h) is predicted by w alone, since π need not be known of new samples.
    Where h_i is known, the likelihood is that of (y_i, h_i). The loss is not learned from: it measures, in `score` and the history.
    What is predicted is the class of highest P_w(y | x), then its best h.

    `history_` has, beside the columns of the others, `nll`, the mean of −log P_w(y_i | x_i), and `gradient`, the norm of the objective's.
    Its `gap` bounds how far the M step was from its optimum.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = EM(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    >>> model.predict_latent_proba(Candidates(x, [2, 2]), [0, 1]).round(decimals=2)
    tensor([0.9500, 0.0500, 0.9500, 0.0500])
    """

    def __init__(
        self,
        loss: Loss | None = None,
        C: float = 1.0,
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

    def _risk(self, candidates: Candidates, y: Tensor, known: Tensor) -> Likelihood:
        return Likelihood(candidates, y, known, self._log_prior(candidates))

    def _log_prior(self, candidates: Candidates) -> Tensor | None:
        return class_prior(candidates, self.joint_)

    def _convex(self) -> ExpectedLikelihood:
        t = self._training
        return ExpectedLikelihood(t.candidates, t.y, t.p.double(), t.log_prior)

    def _solve(self, problem: Regularised, start: Point, tol: float, share: float) -> Solution:
        return quasi_newton(problem, start, tol, share)

    def _predictor(self, w: Tensor) -> ClassFirst:
        return MarginalPrediction(w, self.joint_)

    def _terms(self) -> dict[str, float]:
        t = self._training
        # At its own posterior the bound equals the objective, and has its gradient.
        gradient = Regularised(t.space, self._convex(), self.C).gradient(t.point)
        return {"w_norm": half_square(t.point.w), "nll": t.mean(t.risk.each(t.point.scores)), "gradient": float(gradient.norm())}
