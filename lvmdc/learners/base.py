"""What all learners share: the outer loop, prediction, score and the record of how it went."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from typing import Any, get_args

import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from torch import Tensor
from tqdm import tqdm

from lvmdc import distributed
from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel, LinearPrediction
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.learners import checks
from lvmdc.learners.state import Ended, Resumable, Training
from lvmdc.losses import Loss, ZeroOneLoss, check_loss
from lvmdc.solvers.choice import Rounds, WSolver
from lvmdc.solvers.initial import Init, most_probable, starting_weights
from lvmdc.solvers.likelihood_start import likelihood_posterior
from lvmdc.storage.mapped import memory_budget

BELIEFS = ("likelihood", "prior")  # starts that are distributions of h, of which h* is the most probable


class LatentLearner(Resumable, ClassifierMixin, BaseEstimator, ABC):
    """Learns w, and what it believes of h, by outer iterations `step()` that `fit` repeats until (11) falls by less than C·ε.

    Constructors only store; what is learned ends in an underscore: `coef_` (K, d), or the w of one's own `joint` map,
    `objective_`, `history_` (one row an outer iteration), `n_iter_`, `converged_`, `n_classes_`.

    Args:
        loss: Δ; the 0/1 loss where not given.
        C: weight of the mean slack in (11).
        tol: ε; learning stops when an outer iteration lowers the objective by less than C·ε. Below 1e-5 the scores of class
            blocks are in float64, whatever the features are in.
        init: the start: `likelihood`, the posterior of h under the most likely model of the labels (see `likelihood_posterior`), which
            depends neither on a seed nor on the last digit of the features; `prior`, the most probable h by the prior, of which there must
            be one; `central` (needs boxes), `random`, `uniform` (the mean of all candidates) or `given` (`fit(..., h_init=…)`).
        seed: of everything random.
        n_init: how many starts, with seeds from `seed` on; the one of lowest objective is kept.
        max_iter: outer iterations at most; then a ConvergenceWarning says how large the gap is.
        solver: of (14): `n_slack`, the fastest; `one_slack`, the cutting plane of the paper; `frank_wolfe`, a few samples at a time; or
            `pegasos`, stochastic subgradients, for a `tol` of some percent.
        cccp: of (13): `full` solves (14) to its tolerance before h* moves, as in Algorithm 1, so that the end hardly depends on rounding or
            on the solver; `strict` solves it only as exactly as h* still moves, `eager` moves h* after every pass that lowered (13): both
            are faster and may end lower, but follow the last digit; `self_paced` begins with the samples that w explains well.
        n_classes: K; one more than the highest y where not given.
        joint: a joint feature map of one's own; class blocks where not given.
        memory_budget: bytes for Δ between candidates, and as many for what the solver copies of features on disk; a quarter of what is
            free where not given.
        verbose: show a progress bar.
    """

    over_ranks: bool = False  # whether it learns from a set that is divided over the ranks of torch.distributed
    coef_: Tensor
    history_: list[dict[str, float]]

    def __init__(
        self,
        loss: Loss | None = None,
        C: float = 1.0,
        tol: float = 1e-3,
        init: Init = "likelihood",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 50,
        solver: WSolver = "n_slack",
        cccp: Rounds = "full",
        n_classes: int | None = None,
        joint: JointFeatureMap | None = None,
        memory_budget: int | None = None,
        verbose: bool = False,
    ):
        self.loss, self.C, self.tol, self.init, self.seed, self.n_init, self.max_iter = loss, C, tol, init, seed, n_init, max_iter
        self.solver, self.cccp = solver, cccp
        self.n_classes, self.joint, self.memory_budget, self.verbose = n_classes, joint, memory_budget, verbose

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        candidates: Candidates,
        y: ArrayLike,
        h: ArrayLike | None = None,
        h_init: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> LatentLearner:
        """Learn from samples with outputs y (n,), and h (n,) where the latent variable is known, −1 where it is not.

        `prior` (T,) or (T, K) are log weights of h, as in `Candidates(..., prior=…)`, for candidates that have none.
        """
        self.check_parameters()
        candidates = checks.with_prior(candidates, prior)
        lowest: dict[str, Any] | None = None
        for start in range(self.n_init):
            self.begin(candidates, y, h, h_init, self.seed + start)
            self._run(f"{type(self).__name__}, start {start + 1} of {self.n_init}" if self.n_init > 1 else type(self).__name__)
            if lowest is None or self.objective_ < lowest["history_"][-1]["objective"]:
                lowest = dict(self.__dict__)
        self.__dict__.update(lowest or {})
        self.warn_if_unfinished()
        return self

    def warn_if_unfinished(self) -> None:
        """A ConvergenceWarning with the gap, if the limit of iterations, or that of the solver, ended the learning."""
        if self.converged_ or (self.n_iter_ < self.max_iter and not self.stuck_):
            return
        last, name = self.history_[-1], type(self).__name__
        why = f"{name} stopped at max_iter={self.max_iter} while the objective still fell by {last['decrease']:.3g}"
        if self.stuck_:
            why = f"{name} stopped after {self.n_iter_} iterations, since solver={self.solver!r} lowers the objective no further by itself"
        warnings.warn(f"{why} (tolerance {self.C * self.tol:.3g}); duality gap {last['gap']:.3g}", ConvergenceWarning, stacklevel=3)

    def _run(self, title: str) -> None:
        with tqdm(total=self.max_iter, desc=title, unit="iteration", disable=not self.verbose) as bar:
            while not self.finished_ and self.n_iter_ < self.max_iter:
                row = self.step()
                bar.update()
                bar.set_postfix(objective=f"{row['objective']:.4f}", loss=f"{row['loss']:.4f}")

    def begin(
        self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None, h_init: ArrayLike | None = None, seed: int | None = None
    ) -> None:
        """Check everything and make ready for `step`, as `fit` does first."""
        if checks.check_candidates(candidates).shard is not None:
            self.check_over_ranks()
        self._training = self._make_training(self.checked(candidates, y, h, h_init, seed))
        self.history_, self.n_iter_, self.converged_, self.stuck_ = [], 0, False, False
        self._begin()

    def checked(
        self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None, h_init: ArrayLike | None = None, seed: int | None = None
    ) -> checks.Checked:
        """What any solver learns from, once everything is checked; the sizes of the data are known from then on."""
        self.check_parameters()
        self.seed_ = self.seed if seed is None else seed
        candidates = checks.check_candidates(candidates).detach()  # learned from as they are: exact solvers need no gradient of them
        labels = candidates.outputs(y, self.n_classes)
        self.n_classes_ = int(distributed.highest(candidates, float(labels.max()))) + 1 if self.n_classes is None else self.n_classes
        self.n_features_in_ = candidates.n_features
        self.loss_ = ZeroOneLoss() if self.loss is None else self.loss
        self.joint_ = ClassBlocks(self.n_classes_) if self.joint is None else self.joint
        check_loss(self.loss_, candidates, labels, self.n_classes_)
        candidates.check_prior(self.n_classes_)
        checks.check_joint(self.joint_, candidates, self.n_classes_)
        allowed = checks.check_allowed(self.joint_.has(candidates, labels), candidates, labels)
        known = self._known(checks.check_latents(h, candidates, allowed))
        given = checks.check_latents(h_init, candidates, allowed, "h_init")
        given = torch.where(known >= 0, known, given)
        if self.init == "given" and bool((given < 0).any()):
            i = int((given < 0).nonzero()[0])
            raise ValueError(f"init='given' needs h_init= with a candidate for every sample whose h is unknown, but sample {i} has none")
        return checks.Checked(candidates, labels, known, allowed, given)

    def step(self) -> dict[str, float]:
        """One outer iteration; its row of the history."""
        if isinstance(self._training, Ended):
            raise RuntimeError("this training went on under another C: to go on here, call begin and load_state_dict with its state_dict")
        started, self.n_iter_ = time.perf_counter(), self.n_iter_ + 1
        row = self._step()
        w = self._training.point.w
        self.coef_ = w.reshape(self.n_classes_, -1) if self.joint is None else w
        row = {"iteration": self.n_iter_, **row, "passes": self._training.passes, "seconds": time.perf_counter() - started}
        self.history_.append(row)
        return row

    @property
    def finished_(self) -> bool:
        """Whether another `step` would change nothing: learning has converged, or its solver can do no better."""
        return self.converged_ or self.stuck_

    @property
    def objective_(self) -> float:
        """(11) at the end."""
        self._check_fitted("objective_")
        return self.history_[-1]["objective"]

    def start_posterior(self, samples: checks.Checked) -> Tensor:
        """(T,) in float64: the belief about h at the start, as `init` names it; sums to one over each sample."""
        if self.init == "likelihood":
            return likelihood_posterior(samples.candidates, samples.y, self.joint_, samples.known)
        log_prior = samples.candidates.log_prior(samples.y)
        return starting_weights(self.init, samples.candidates, samples.allowed, self.seed_, samples.start, samples.known, log_prior)

    def start_truth(self, candidates: Candidates, p: Tensor) -> Tensor:
        """(T,): the first h* of CCCP by the belief p (T,) at the start: the most probable one for `likelihood` and `prior`."""
        return most_probable(p, candidates.counts) if self.init in BELIEFS else p

    def _make_training(self, samples: checks.Checked) -> Any:
        """The working parts; a learner whose w block is another makes its own, with what `step` and `begin` read of them."""
        return Training(self, samples)

    @abstractmethod
    def _begin(self) -> None:
        """Set the first posterior."""

    @abstractmethod
    def _step(self) -> dict[str, float]:
        """Advance w and the posterior, set `converged_` and return the terms of the objective and what else is worth a column."""

    @abstractmethod
    def _conditional(self) -> ConditionalModel:
        """P_θ after learning."""

    def _known(self, known: Tensor) -> Tensor:
        return known

    def check_parameters(self) -> None:
        checks.check_positive("C", self.C)
        checks.check_positive("tol", self.tol)
        checks.check_choice("init", self.init, get_args(Init))
        checks.check_choice("solver", self.solver, get_args(WSolver))
        checks.check_choice("cccp", self.cccp, get_args(Rounds))
        for name in ("max_iter", "n_init"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        memory_budget(torch.device("cpu"), self.memory_budget)

    def check_over_ranks(self) -> None:
        """Refuse what cannot be learned over several ranks: a rank may know no more of the others' samples than sums."""
        name = type(self).__name__
        if not self.over_ranks:
            raise ValueError(f"{name} learns in one process; over several ranks there are LSVM, ILSVM, DISC and Supervised")
        if self.solver != "one_slack" or self.cccp not in ("strict", "full"):
            raise ValueError(
                "learning over several ranks needs solver='one_slack' and cccp='strict' or 'full', whose cuts are sums over samples,"
                f" but they are {self.solver!r} and {self.cccp!r}"
            )

    # ---- using ---------------------------------------------------------------------------------------------------

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """(y(w), h(w)): classes (n,) and candidate indices (n,) (3)."""
        return self.prediction(candidates).predict(candidates)

    def predict_latent_proba(self, candidates: Candidates, y: ArrayLike) -> Tensor:
        """(T,): P_θ(h | x, y), which sums to one over each sample's candidates."""
        self._check_input(candidates, "predict_latent_proba")
        labels = candidates.outputs(y, self.n_classes_)
        with torch.no_grad():
            return self._conditional()(candidates, labels).p

    def score(self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None) -> float:
        """1 − mean loss against the truth (y, h); without h, 1 − the share of wrong classes, which is all that can be told then."""
        y_hat, h_hat = self.predict(candidates)
        labels = candidates.outputs(y, self.n_classes_)
        if h is None:
            return 1 - float((y_hat != labels).double().mean())
        return 1 - float(self.loss_.between(candidates, labels, h, y_hat, h_hat).mean())

    def prediction(self, candidates: Candidates) -> LinearPrediction:
        """P_w, for scores, loss-augmented prediction and the k best, on candidates that it fits."""
        self._check_input(candidates, "predict")
        if self.coef_ is None:
            raise ValueError("P_w was learned as a network, which the learner alone cannot use; see lvmdc.lightning.checkpoint")
        return LinearPrediction(self.coef_, self.joint_).requires_grad_(False)

    def _check_fitted(self, what: str) -> None:
        if not getattr(self, "history_", None):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit before {what}")

    def _check_input(self, candidates: Any, what: str) -> None:
        self._check_fitted(what)
        given = checks.check_candidates(candidates).n_features
        if given != self.n_features_in_:
            raise ValueError(f"candidates must have {self.n_features_in_} features, as in fit, but they have {given}")
