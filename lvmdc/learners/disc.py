"""DISC: two distributions that agree by a loss-based dissimilarity coefficient.

M. P. Kumar, B. Packer, D. Koller, Modeling latent variable uncertainty for loss-based learning, ICML 2012.
"""

import copy
from numbers import Real
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from lvmdc import distributed
from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel, LogLinear, NeuralConditional, Uniform
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.learners import checks
from lvmdc.learners.lsvm import BlockLearner
from lvmdc.losses import Loss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.objective import Objective, half_square, half_squares
from lvmdc.solvers.choice import CCCPKind, WSolver
from lvmdc.solvers.initial import Init
from lvmdc.solvers.lbfgs import lbfgs, lengthen, log_linear_lbfgs
from lvmdc.solvers.ssd import ssd
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound, with_known

ThetaSolver = Literal["lbfgs", "ssd"]
COOLING = 2 / 3  # β falls by a third in an outer iteration, so that an annealed one is back at 0.1 after seven from 2
THETA_TOL = 1.0  # the θ block is solved to this share of the tolerance of the w block: both then end learning together


class Within(ConditionalModel):
    """Another model's P_θ over only those candidates that class y has by the joint feature map of P_w.

    >>> Within(Uniform(), ClassBlocks(1))(Candidates(torch.eye(2), [2]), [0]).p
    tensor([0.5000, 0.5000])
    """

    def __init__(self, model: ConditionalModel, joint: JointFeatureMap):
        super().__init__()
        self.model, self.joint = model, joint

    def scores(self, candidates: Candidates, y: Tensor) -> Tensor:
        return self.model.scores(candidates, y).masked_fill(~self.joint.has(candidates, y), -torch.inf)

    @property
    def linear(self) -> LogLinear | None:
        return self.model.linear


class DISC(BlockLearner):
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i (ξ_i(w, θ) − β H_i(θ)) (11) by block coordinate descent: w by CCCP, then θ.

    A prior of h, `Candidates(..., prior=…)` or `fit(..., prior=…)`, is part of P_θ(h | x, y) ∝ π(h | x, y) exp(θ·Φ(x, y, h)) (5) wherever
    it enters, and of the start; P_w has none.

    What it takes beyond `LatentLearner`:

    Args:
        J: weight of ‖θ‖² in (11). The larger it is, the closer P_θ stays to the prior of h, uniform where there is none.
        beta: β of the dissimilarity coefficient (2), in (0, 1).
        anneal: β of the θ block in the first outer iteration, if that is more; it falls by a third per iteration until it is `beta`. A
            large β keeps P_θ flat while w is poor; learning ends with `beta` in any case.
        theta_bound: what the θ block minimises, the expected loss of the prediction (`prediction`, (15)) or its bound (`slack`, (16)).
            With `slack` every step lowers (11); with `prediction` every block lowers its own objective, and P_θ learns more.
        theta_solver: `lbfgs`, or `ssd`, Algorithm 2.
        conditional: P_θ: `log_linear`, `uniform` (P_θ is the prior, and learns nothing), or a module that maps features (T, d') to
            scores (T, K), of which a copy is trained.
        joint_phi: a joint feature map for Φ; `joint` where not given.

    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])  # two samples; the first candidate of each shows its class
    >>> model = DISC(C=10.0, seed=2).fit(Candidates(x, [2, 2]), [0, 1])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    >>> round(model.objective_, 2)
    0.43
    """

    has_theta = supports_batches = True
    model_: ConditionalModel

    def __init__(
        self,
        loss: Loss | None = None,
        C: float = 1.0,
        J: float = 0.1,
        beta: float = 0.1,
        tol: float = 1e-3,
        init: Init = "likelihood",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 50,
        solver: WSolver = "n_slack",
        cccp: CCCPKind = "exact",
        anneal: float = 0.0,
        theta_bound: ThetaBound = "prediction",
        theta_solver: ThetaSolver = "lbfgs",
        conditional: str | nn.Module = "log_linear",
        n_classes: int | None = None,
        joint: JointFeatureMap | None = None,
        joint_phi: JointFeatureMap | None = None,
        memory_budget: int | None = None,
        verbose: bool = False,
    ):
        super().__init__(loss, C, tol, init, seed, n_init, max_iter, solver, cccp, n_classes, joint, memory_budget, verbose)
        self.J, self.beta, self.anneal, self.theta_bound, self.theta_solver = J, beta, anneal, theta_bound, theta_solver
        self.conditional, self.joint_phi = conditional, joint_phi

    def check_parameters(self) -> None:
        super().check_parameters()
        checks.check_positive("J", self.J, zero=True)
        if not (isinstance(self.beta, Real) and 0 < self.beta < 1):
            raise ValueError(f"beta must lie in (0, 1), but it is {self.beta}")
        checks.check_positive("anneal", self.anneal, zero=True)
        checks.check_choice("theta_bound", self.theta_bound, get_args(ThetaBound))
        checks.check_choice("theta_solver", self.theta_solver, get_args(ThetaSolver))
        if not isinstance(self.conditional, nn.Module):
            checks.check_choice("conditional", self.conditional, ("log_linear", "uniform"))

    def check_over_ranks(self) -> None:
        super().check_over_ranks()
        if isinstance(self.conditional, nn.Module) or self.theta_solver != "lbfgs":
            raise ValueError("learning over several ranks needs a log-linear or uniform conditional= and theta_solver='lbfgs'")

    @property
    def needs_outer_iterations(self) -> bool:
        """Whether β cools down, or Algorithm 2 is to be followed."""
        return self.anneal > self.beta or self.theta_solver != "lbfgs"

    def begin_theta(self, candidates: Candidates) -> None:
        """θ = 0, or the first weights of a network, in the sizes of the candidates."""
        self.model_ = self._make_conditional(self._zero_theta(candidates))

    def _begin(self) -> None:
        self.begin_theta(self._training.candidates)
        self._theta_scores: Tensor | None = None  # the scores of P_θ, where they are known
        self._solved: tuple[float, float, float] | None = None  # the θ block that θ solves: C, J, β,
        self._solved_for: tuple[Tensor, ...] = ()  # and what of w it depends on
        self._refresh()
        if self._training.from_belief and self.learns_theta:
            # The first w learns under what is believed at the start, not under a P_θ that has learned nothing yet.
            self._training.p = self._training.belief

    @property
    def joint_phi_(self) -> JointFeatureMap:
        """Φ's joint feature map."""
        return self.joint_phi or self.joint or ClassBlocks(self.n_classes_)

    def _zero_theta(self, candidates: Candidates) -> Tensor:
        size = self.joint_phi_.size(candidates.for_phi())
        shape = (self.n_classes_, size // self.n_classes_) if isinstance(self.joint_phi_, ClassBlocks) else (size,)
        return torch.zeros(shape, dtype=torch.float64, device=candidates.device)

    def _make_conditional(self, theta: Tensor | None) -> ConditionalModel:
        if isinstance(self.conditional, nn.Module):
            copied = copy.deepcopy(self.conditional)  # a parameter is stored, never changed
            return self._within(NeuralConditional(copied if theta is None else copied.to(theta.device)))
        if self.conditional == "uniform":
            return Uniform(self.joint)
        assert theta is not None
        return self._within(LogLinear(theta, self.joint_phi_))

    def _within(self, model: ConditionalModel) -> ConditionalModel:
        """Only a custom joint map may lack candidates; used as Φ too, it gives them the score −inf itself."""
        says_so = isinstance(model, LogLinear) and model.joint is self.joint
        return model if self.joint is None or says_so else Within(model, self.joint)

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, P_θ too, and all that `step` needs to go on, as tensors and plain data."""
        return super().state_dict() | {"theta": dict(self.model_.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if not hasattr(self, "model_"):
            self.model_ = self._make_conditional(state["theta"].get("theta", state["theta"].get("model.theta")))
        self.model_.load_state_dict(state["theta"])

    def go_on_from(self, last: Self) -> None:
        self._solved, self._solved_for, self._theta_scores = None, (), last._theta_scores
        super().go_on_from(last)

    def _training_state(self) -> dict[str, Any]:
        return super()._training_state() | {"solved": None if self._solved is None else list(self._solved)}

    def _load_training(self, state: dict[str, Any]) -> None:
        super()._load_training(state)
        self._theta_scores = None  # θ is loaded later
        solved = state.get("solved")
        self._solved, self._solved_for = None if solved is None else tuple(solved), self._of_w()

    def _refresh(self, scores: Tensor | None = None) -> None:
        """The posterior of the current θ, of which the scores (T,) may be known."""
        t = self._training
        with torch.no_grad():
            self._theta_scores = self.model_.scores(t.candidates, t.y) if scores is None else scores
            t.p = with_known(self.model_.log_prob(t.candidates, t.y, self._theta_scores).exp(), t.candidates, t.given)

    def _objective(self) -> Objective:
        return self._training.objective(self.beta, self.J * half_squares(self.model_.parameters()).detach())

    @property
    def _annealed_beta(self) -> float:
        return max(self.beta, self.anneal * COOLING ** max(self.n_iter_ - 1, 0))

    def _step(self) -> dict[str, float]:
        row = super()._step()
        self.converged_ = self.converged_ and self._annealed_beta == self.beta
        return row

    def _step_posterior(self) -> float:
        t, settings = self._training, (self.C, self.J, self._annealed_beta)
        if not list(self.model_.parameters()) or (self._solved == settings and self._unchanged()):
            return 0.0
        problem = self._theta_problem()
        if self.theta_solver == "lbfgs":
            tol, linear = THETA_TOL * t.cccp.tolerance, self.model_.linear
            gained = lbfgs(problem, tol) if linear is None else log_linear_lbfgs(problem, linear, tol, self._theta_scores)
            self._solved, self._solved_for = settings, self._of_w()
        else:
            gained = ssd(problem, seed=self.seed_ + self.n_iter_)
        t.extra_passes += problem.evaluations
        if gained > 0 or t.p is t.belief:  # P_θ takes over from the start
            self._refresh()
        return gained

    def _follow_C(self, growth: float) -> None:
        linear, scores, longer = self.model_.linear, self._theta_scores, 0.0
        if linear is not None and scores is not None:
            longer = lengthen(self._theta_problem(), linear, growth, scores)
            self._refresh(longer * scores)
        if longer != growth or growth <= 1:
            self._step_posterior()

    def _theta_problem(self) -> PosteriorProblem:
        t = self._training
        settings = self.J, self.C, self._annealed_beta, self.theta_bound
        return PosteriorProblem(self.model_, t.loss, t.point.scores, *settings, t.given, t.predicted())

    def theta_problem(self, model: ConditionalModel, loss: ExpectedLoss, scores: Tensor, known: Tensor, C: float) -> PosteriorProblem:
        return PosteriorProblem(model, loss, scores, self.J, C, self.beta, self.theta_bound, known)

    def _of_w(self) -> tuple[Tensor, ...]:
        """All that the θ block depends on w by: what it predicts, or, with `slack`, w itself."""
        t = self._training
        return t.predicted() if self.theta_bound == "prediction" else (t.point.w,)

    def _unchanged(self) -> bool:
        """Whether the θ block is the one that θ solves, on all ranks."""
        same = torch.equal(torch.cat(self._solved_for), torch.cat(self._of_w()))
        return distributed.highest(self._training.candidates, float(not same)) == 0

    def _theta_norm(self) -> float:
        return self.J * half_square(*self.model_.parameters())

    @property
    def theta_(self) -> Tensor:
        """θ: (K, d') for class blocks, one vector for any other P_θ."""
        self._check_fitted("theta_")
        model = self.model_.model if isinstance(self.model_, Within) else self.model_
        if isinstance(model, LogLinear):
            return model.theta.detach()
        parts = [p.detach().flatten() for p in self.model_.parameters()]
        return torch.cat(parts) if parts else torch.zeros(0)

    def predict_latent_proba(self, candidates: Candidates, y: ArrayLike) -> Tensor:
        """(T,): P_θ(h | x, y) (5), which sums to one over each sample's candidates."""
        self._check_input(candidates, "predict_latent_proba")
        if self.conditional == "log_linear" and (length := self.joint_phi_.size(candidates.for_phi())) != self.theta_.numel():
            raise ValueError(
                f"candidates must give Φ the {self.theta_.numel()} numbers that θ has from fit, but they give {length}; see phi="
            )
        return super().predict_latent_proba(candidates, y)

    def _conditional(self) -> ConditionalModel:
        return self.model_
