"""What all learners share: the outer loop, prediction, score, history, saving and restoring."""

from __future__ import annotations

import copy
import time
import warnings
from abc import ABC, abstractmethod
from typing import Any, Self, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from lvmdc import distributed
from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel, LinearPrediction
from lvmdc.feature_maps import ClassBlocks, JointFeatureMap
from lvmdc.learners import checks
from lvmdc.learners.estimator import Estimator
from lvmdc.learners.state import BlockTraining, Ended
from lvmdc.losses import Loss, ZeroOneLoss, check_loss
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.solvers.choice import CCCPKind, WSolver, current_cccp
from lvmdc.solvers.initial import Init, likelihood_posterior, most_probable, starting_weights
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound
from lvmdc.storage.mapped import memory_budget

Module = TypeVar("Module", bound=nn.Module)


class LatentLearner(Estimator, ABC):
    """Learns w, and what it believes of h, by outer iterations `step()` that `fit` repeats until (11) falls by less than C·ε.

    Constructors only store; what is learned ends in an underscore: `coef_` (K, d), or the w of a custom `joint` map,
    `objective_`, `history_` (one row per outer iteration), `n_iter_`, `converged_`, `n_classes_`.

    Args:
        loss: Δ; the 0/1 loss where not given.
        C: weight of the mean slack in (11).
        tol: ε; learning stops when an outer iteration lowers the objective by less than C·ε. Below 1e-5 the scores of class
            blocks are in float64, whatever the features are in.
        init: the start: `likelihood`, the posterior of h under the most likely model of the labels (see `likelihood_posterior`), which
            depends neither on a seed nor on the last digit of the features; `prior`, the most probable h by the prior, of which there must
            be one; `central` (needs boxes), `random`, `uniform` (the mean of all candidates) or `given` (`fit(..., h_init=…)`).
        seed: of everything random.
        n_init: the number of starts, with seeds from `seed` on; the one of lowest objective is kept.
        max_iter: the most outer iterations; then a ConvergenceWarning states the gap.
        solver: of (14): `n_slack`, the fastest, or `one_slack`, the cutting plane of the paper.
        cccp: of (13): `exact`, Algorithm 1, solves (14) to its tolerance before h* moves, so that the end hardly depends on rounding or on
            the solver; `inexact` solves it only as exactly as h* still moves, `eager` moves h* after every pass that lowered (13): both
            are faster and may end lower, but follow the last digit; `self_paced` begins with the samples that w explains well.
        n_classes: K; one more than the highest y where not given.
        joint: a custom joint feature map; class blocks where not given.
        memory_budget: bytes for Δ between candidates, and the same again for the solver's copies of features on disk; a quarter of what is
            free where not given.
        verbose: show a progress bar.
    """

    # What a learner says of itself to those that run it.
    uses_known_h = False  # needs the h of every training sample
    uses_loss = True  # learns from all of the loss; otherwise at most from its `class_cost`, and the rest only measures
    supports_ranks = False  # learns from a set that is divided over the ranks of torch.distributed
    supports_batches = False  # its objective (11) has steps on mini-batches
    has_theta = False  # P_θ is a model, `model_`, that `begin_theta` makes
    temperature: float | None = None  # of a P_w that is a distribution over all (y, h); None where it is a delta
    J: float = 0.0
    beta: float = 0.0
    theta_bound: ThetaBound = "slack"
    conditional: str | nn.Module | None = None

    coef_: Tensor
    history_: list[dict[str, float]]
    model_: Any
    _training: Any

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
        cccp: CCCPKind = "exact",
        n_classes: int | None = None,
        joint: JointFeatureMap | None = None,
        memory_budget: int | None = None,
        verbose: bool = False,
    ):
        self.loss, self.C, self.tol, self.init, self.seed, self.n_init, self.max_iter = loss, C, tol, init, seed, n_init, max_iter
        self.solver, self.cccp = solver, cccp
        self.n_classes, self.joint, self.memory_budget, self.verbose = n_classes, joint, memory_budget, verbose

    @property
    def learns_theta(self) -> bool:
        """Whether P_θ has parameters to learn."""
        return self.has_theta and self.conditional != "uniform"

    @property
    def needs_outer_iterations(self) -> bool:
        """Whether its settings ask for what steps on mini-batches do not have."""
        return False

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        candidates: Candidates,
        y: ArrayLike,
        h: ArrayLike | None = None,
        h_init: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> Self:
        """Learn from samples with outputs y (n,), and h (n,) where the latent variable is known, −1 where it is not.

        `h_init` is the start for `init="given"`: a candidate per sample (n,), or probabilities of all candidates (T,), such as another
        learner's `predict_latent_proba`. `prior` (T,) or (T, K) are log weights of h, as in `Candidates(..., prior=…)`, for candidates
        that have none.
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
        """A ConvergenceWarning with the gap, if the limit of iterations ended the learning."""
        if self.converged_ or self.n_iter_ < self.max_iter:
            return
        last, name = self.history_[-1], type(self).__name__
        why = f"{name} stopped at max_iter={self.max_iter} while the objective still fell by {last['decrease']:.3g}"
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(f"{why} (tolerance {self.C * self.tol:.3g}); duality gap {last['gap']:.3g}", ConvergenceWarning, stacklevel=3)

    def _run(self, title: str) -> None:
        with tqdm(total=self.max_iter, desc=title, unit="iteration", disable=not self.verbose) as bar:
            while not self.converged_ and self.n_iter_ < self.max_iter:
                row = self.step()
                bar.update()
                bar.set_postfix(objective=f"{row['objective']:.4f}", loss=f"{row['loss']:.4f}")

    def begin(
        self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None, h_init: ArrayLike | None = None, seed: int | None = None
    ) -> None:
        """Check everything and prepare for `step`, as `fit` does first."""
        if checks.check_candidates(candidates).shard is not None:
            self.check_over_ranks()
        self._training = self._make_training(self.checked(candidates, y, h, h_init, seed))
        self._start_history()
        self._begin()

    def _start_history(self) -> None:
        self.history_, self.n_iter_, self.converged_ = [], 0, False

    def checked(
        self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None, h_init: ArrayLike | None = None, seed: int | None = None
    ) -> checks.Checked:
        """What any solver learns from, once everything is checked; the sizes of the data are known from then on."""
        self.check_parameters()
        self.seed_ = self.seed if seed is None else seed
        candidates = checks.check_candidates(candidates).detach()  # exact solvers need no gradient of the features
        labels = candidates.outputs(y, self.n_classes)
        seen = int(distributed.highest(candidates, float(labels.max()))) + 1
        self._set_sizes(seen if self.n_classes is None else self.n_classes, candidates.n_features)
        check_loss(self.loss_, candidates, labels, self.n_classes_)
        candidates.check_prior(self.n_classes_)
        checks.check_joint(self.joint_, candidates, self.n_classes_)
        allowed = checks.check_allowed(self.joint_.has(candidates, labels), candidates, labels)
        known = self._known(checks.check_latents(h, candidates, allowed))
        if h_init is not None and as_tensor(h_init).is_floating_point():
            return checks.Checked(candidates, labels, known, allowed, checks.check_belief(h_init, candidates, allowed))
        given = checks.check_latents(h_init, candidates, allowed, "h_init")
        given = torch.where(known >= 0, known, given)
        if self.init == "given" and bool((given < 0).any()):
            i = int((given < 0).nonzero()[0])
            raise ValueError(f"init='given' needs h_init= with a candidate for every sample whose h is unknown, but sample {i} has none")
        return checks.Checked(candidates, labels, known, allowed, given)

    def _set_sizes(self, n_classes: int, n_features: int) -> None:
        self.n_classes_, self.n_features_in_ = n_classes, n_features
        self.loss_ = ZeroOneLoss() if self.loss is None else self.loss
        self.joint_ = ClassBlocks(self.n_classes_) if self.joint is None else self.joint

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

    def starts_from_belief(self, samples: checks.Checked) -> bool:
        """Whether the start is a distribution of h, of which h* is the most probable."""
        return self.init in ("likelihood", "prior") or (self.init == "given" and samples.start.is_floating_point())

    def start_truth(self, samples: checks.Checked, p: Tensor) -> Tensor:
        """(T,): the first h* of CCCP by the belief p (T,) at the start."""
        return most_probable(p, samples.candidates.counts) if self.starts_from_belief(samples) else p

    def _make_training(self, samples: checks.Checked) -> Any:
        """The state of a training by CCCP; other learners have another."""
        return BlockTraining(self, samples)

    def _begin(self) -> None:
        """Set the first posterior, where it is not the start."""

    @abstractmethod
    def _step(self) -> dict[str, float]:
        """Advance w and the posterior, set `converged_` and return the terms of the objective and other columns."""

    @abstractmethod
    def _conditional(self) -> ConditionalModel:
        """P_θ after learning."""

    def begin_theta(self, candidates: Candidates) -> None:
        """Make P_θ, `model_`, in the sizes of the candidates; only where `has_theta`."""
        raise TypeError(f"{type(self).__name__} has no P_θ to learn")

    def theta_problem(self, model: ConditionalModel, loss: ExpectedLoss, scores: Tensor, known: Tensor, C: float) -> PosteriorProblem:
        """(16) with this learner's J, β and `theta_bound`, see `PosteriorProblem`; only where `has_theta`."""
        raise TypeError(f"{type(self).__name__} has no P_θ to learn")

    def _known(self, known: Tensor) -> Tensor:
        if self.uses_known_h and bool((known < 0).any()):
            i = int((known < 0).nonzero()[0])
            raise ValueError(f"{type(self).__name__} needs h= with the candidate of every sample, but that of sample {i} is unknown")
        return known

    def check_parameters(self) -> None:
        checks.check_positive("C", self.C)
        checks.check_positive("tol", self.tol)
        checks.check_choice("init", self.init, get_args(Init))
        checks.check_choice("solver", self.solver, get_args(WSolver))
        checks.check_choice("cccp", current_cccp(self.cccp, warn=True), get_args(CCCPKind))
        for name in ("max_iter", "n_init"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        memory_budget(torch.device("cpu"), self.memory_budget)

    def check_over_ranks(self) -> None:
        """Refuse what cannot be learned over several ranks: a rank may know no more of the others' samples than sums."""
        if not self.supports_ranks:
            raise ValueError(f"{type(self).__name__} learns in one process; over several ranks there are LSVM, ILSVM, DISC and Supervised")
        if current_cccp(self.cccp) == "self_paced":
            raise ValueError("learning over several ranks needs cccp='exact', 'inexact' or 'eager', but it is 'self_paced'")

    @property
    def classes_(self) -> np.ndarray:
        """(K,) the class indices, as scikit-learn asks for them."""
        self._check_fitted("classes_")
        return np.arange(self.n_classes_)

    # ---- predicting ----------------------------------------------------------------------------------------------

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """(y(w), h(w)): classes (n,) and candidate indices (n,) (3)."""
        return self.prediction(candidates).predict(candidates)

    def predict_latent_proba(self, candidates: Candidates, y: ArrayLike) -> Tensor:
        """(T,): P_θ(h | x, y), which sums to one over each sample's candidates."""
        self._check_input(candidates, "predict_latent_proba")
        labels = candidates.outputs(y, self.n_classes_)
        with torch.no_grad():
            return on_device(self._conditional(), candidates.device)(candidates, labels).p

    def score(self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None) -> float:
        """1 − mean loss against the truth (y, h); without h, 1 − the share of wrong classes."""
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
        return LinearPrediction(self.coef_.to(candidates.device), self.joint_).requires_grad_(False)

    def _check_fitted(self, what: str) -> None:
        if not getattr(self, "history_", None):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit before {what}")

    def _check_input(self, candidates: Any, what: str) -> None:
        self._check_fitted(what)
        given = checks.check_candidates(candidates).n_features
        if given != self.n_features_in_:
            raise ValueError(f"candidates must have {self.n_features_in_} features, as in fit, but they have {given}")

    _estimator_type = "classifier"  # what scikit-learn below 1.6 asks for instead of the tags

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin

        return type("Classifier", (ClassifierMixin, BaseEstimator), {})().__sklearn_tags__()

    # ---- saving and restoring ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, and all that `step` needs to continue, as tensors and plain data, whatever the number of ranks."""
        self._check_fitted("state_dict")
        return {
            "learner": type(self).__name__,
            "n_classes": self.n_classes_,
            "n_features": self.n_features_in_,
            "coef": self.coef_,
            "history": [dict(row) for row in self.history_],
            "converged": self.converged_,
            "training": self._training.state if isinstance(self._training, Ended) else self._training_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore from `state_dict`: to continue with `step`, after `begin` on the same samples, or, without `begin`, to predict."""
        if state["learner"] != type(self).__name__:
            raise ValueError(f"the state is that of {state['learner']}, but this is {type(self).__name__}")
        begun = hasattr(self, "_training")
        for name, mine in (("n_classes", "n_classes_"), ("n_features", "n_features_in_")):
            if begun and state[name] != getattr(self, mine):
                raise ValueError(f"the state has {name} = {state[name]}, but the data have {getattr(self, mine)}")
        self._set_sizes(state["n_classes"], state["n_features"])
        self.coef_, self.history_ = state["coef"], [dict(row) for row in state["history"]]
        self.n_iter_, self.converged_ = len(self.history_), state["converged"]
        if begun:
            self._load_training(state["training"])

    def go_on_from(self, last: Self) -> None:
        """Take over the training of `last`, which differs in C alone and keeps what it has learned; nothing is checked or scored again."""
        if isinstance(last._training, Ended):
            raise RuntimeError("the training of `last` went on under another C already: call begin and load_state_dict with its state_dict")
        state = last.state_dict()
        self.load_state_dict(state)
        self._training, last._training, self.seed_ = last._training, Ended(state["training"]), last.seed_
        self._start_history()
        self._training.change_C(self.C, self.C * self.tol)

    def _training_state(self) -> dict[str, Any]:
        return self._training.state() | {"samples": distributed.n_samples(self._training.candidates), "seed": self.seed_}

    def _load_training(self, state: dict[str, Any]) -> None:
        n = distributed.n_samples(self._training.candidates)
        if state["samples"] != n:
            raise ValueError(f"the state was learned from {state['samples']} samples, but there are {n}")
        self._training.load_state(state)
        self.seed_ = state["seed"]


def on_device(module: Module, device: torch.device) -> Module:
    """The module on a device: a copy of it unless it is there, since training goes on where it is.

    >>> module = nn.Linear(2, 3)
    >>> on_device(module, torch.device("cpu")) is module, on_device(module, torch.device("meta")).weight.device
    (True, device(type='meta'))
    """
    first = next(module.parameters(), None)
    return module if first is None or first.device == device else copy.deepcopy(module).to(device)
