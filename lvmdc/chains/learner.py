"""What the learners of chains share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, get_args

import torch
from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates
from lvmdc.chains.feature_map import ChainMap
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.hinge import predict
from lvmdc.chains.rounds import ChainRounds
from lvmdc.chains.sequences import Chains
from lvmdc.chains.start import ChainInit
from lvmdc.chains.training import ChainTraining
from lvmdc.distributions import ConditionalModel, LinearPrediction
from lvmdc.learners import checks
from lvmdc.learners.base import LatentLearner


class ChainLearner(LatentLearner):
    """Learns y and the states of the sites from sequences of which y is told: (y(w), h(w)) = argmax w·Ψ(x, y, h) by Viterbi (3).

    As `LatentLearner`, with `Chains` for candidates and a state a site, packed (T,), for h.

    Args:
        n_states: S.
        loss: Δ; `HammingLoss()` where not given.
        C: weight of the mean slack in (11).
        tol: ε; learning stops when an outer iteration lowers the objective by less than C·ε.
        window: how many neighbours on either side a site of P_w sees.
        transitions: whether P_w scores pairs of neighbours.
        init: the first h*: `cluster` (k-means of what is seen at the sites), `random`, from which little can be learned where S is
            large, or `given` (`fit(..., h_init=…)`).
        seed: of everything random.
        n_init: how many starts, with seeds from `seed` on; the one of lowest objective is kept.
        max_iter: outer iterations at most; then a ConvergenceWarning says how large the gap is.
        cccp: `strict` solves (14) before h* moves, as in Algorithm 1; `eager` moves it after every pass that lowered (13).
        n_classes: K; one more than the highest y where not given.
        verbose: show a progress bar.
    """

    loss_: HammingLoss  # type: ignore[assignment]
    init: ChainInit  # type: ignore[assignment]
    cccp: ChainRounds
    joint = None  # w is shown as (K, D / K)
    _training: ChainTraining

    def __init__(
        self,
        n_states: int,
        loss: HammingLoss | None = None,
        C: float = 1.0,
        tol: float = 1e-3,
        window: int = 0,
        transitions: bool = True,
        init: ChainInit = "cluster",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 50,
        cccp: ChainRounds = "strict",
        n_classes: int | None = None,
        verbose: bool = False,
    ):
        self.n_states, self.loss, self.C, self.tol = n_states, loss, C, tol  # type: ignore[assignment]
        self.window, self.transitions, self.init, self.seed = window, transitions, init, seed
        self.n_init, self.max_iter, self.cccp, self.n_classes, self.verbose = n_init, max_iter, cccp, n_classes, verbose

    # ---- learning ------------------------------------------------------------------------------------------------

    def begin(
        self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None, h_init: ArrayLike | None = None, seed: int | None = None
    ) -> None:
        """Check everything and make ready for `step`; h (T,) holds the states that are known, −1 where they are not."""
        self.check_parameters()
        self.seed_ = self.seed if seed is None else seed
        chains = check_chains(candidates).detach()
        labels = chains.outputs(y, self.n_classes)
        self.n_classes_ = int(labels.max()) + 1 if self.n_classes is None else self.n_classes
        self.n_features_in_ = chains.n_features
        self._set_up()
        unknown = torch.where(chains.mask, -1, 0)
        known = unknown if h is None else chains.states(h, self.n_states, "h", unknown=True)
        given = None if h_init is None else chains.states(h_init, self.n_states, "h_init")
        self._training = ChainTraining(self, chains, labels, torch.where(chains.mask, known, -1), given)
        self.history_, self.n_iter_, self.converged_, self.stuck_ = [], 0, False, False
        self._begin()

    def _set_up(self) -> None:
        """What follows from the parameters and the number of features."""
        self.loss_ = HammingLoss() if self.loss is None else self.loss  # type: ignore[assignment]
        self.map_ = ChainMap(self.n_states, (2 * self.window + 1) * self.n_features_in_, self.transitions)

    def check_parameters(self) -> None:
        checks.check_positive("C", self.C)
        checks.check_positive("tol", self.tol)
        checks.check_choice("init", self.init, get_args(ChainInit))
        checks.check_choice("cccp", self.cccp, get_args(ChainRounds))
        for name, least in (("n_states", 1), ("max_iter", 1), ("n_init", 1), ("window", 0)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ValueError(f"{name} must be an integer of at least {least}, but it is {getattr(self, name)}")
        if self.loss is not None and not isinstance(self.loss, HammingLoss):
            raise TypeError(f"loss must be a HammingLoss, which Viterbi can be augmented by, but it is {self.loss!r}")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._set_up()

    # ---- using ---------------------------------------------------------------------------------------------------

    def predict(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """(y(w), h(w)): classes (n,) and the states of all sites, packed (T,) (3)."""
        self._check_input(candidates, "predict")
        chains = check_chains(candidates)
        y, h = predict(self.map_, chains.window(self.window), self.coef_)
        return y, chains.pack(h)

    def predict_latent_proba(self, candidates: Candidates, y: ArrayLike) -> Tensor:
        """(T, S): P_θ(h_t = s | x, y) of every site."""
        self._check_input(candidates, "predict_latent_proba")
        chains = check_chains(candidates)
        with torch.no_grad():
            return chains.pack(self._marginals(chains, chains.outputs(y, self.n_classes_)))

    @abstractmethod
    def _marginals(self, chains: Chains, y: Tensor) -> Tensor:
        """(n, m, S): the node marginals of P_θ after learning."""

    def score(self, candidates: Candidates, y: ArrayLike, h: ArrayLike | None = None) -> float:
        """1 − mean loss against the truth (y, h), h the states (T,); without h, 1 − the share of wrong classes."""
        y_hat, h_hat = self.predict(candidates)
        chains = check_chains(candidates)
        labels = chains.outputs(y, self.n_classes_)
        if h is None:
            return 1 - float((y_hat != labels).double().mean())
        truth = chains.states(h, self.n_states)
        return 1 - float(self.loss_.between(labels, truth, y_hat, chains.pad(h_hat), chains.counts).mean())

    def prediction(self, candidates: Candidates) -> LinearPrediction:
        raise TypeError(f"{type(self).__name__} predicts by Viterbi, there is no table of scores; see predict")

    def _conditional(self) -> ConditionalModel:
        raise TypeError(f"{type(self).__name__} has no P_θ over listed candidates; see predict_latent_proba")

    def _check_input(self, candidates: Any, what: str) -> None:
        super()._check_input(check_chains(candidates), what)


def check_chains(candidates: Any) -> Chains:
    """Refuse what is not a `Chains`.

    >>> check_chains(Candidates(torch.eye(2), [2]))
    Traceback (most recent call last):
    TypeError: Expected a Chains object but got Candidates; see lvmdc.chains.Chains(features, counts)
    """
    if not isinstance(candidates, Chains):
        raise TypeError(f"Expected a Chains object but got {type(candidates).__name__}; see lvmdc.chains.Chains(features, counts)")
    return candidates
