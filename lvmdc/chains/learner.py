"""Where learning of chains starts: the first labelings."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.candidates import Candidates
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.n_slack import ChainRounds, chain_block
from lvmdc.chains.scores import ChainMap
from lvmdc.chains.sequences import Chains
from lvmdc.chains.w_block import ChainHinge, predict
from lvmdc.distributions import ConditionalModel, LinearPrediction
from lvmdc.learners import checks
from lvmdc.learners.base import LatentLearner
from lvmdc.learners.state import BlockTraining
from lvmdc.objective import Objective, half_square
from lvmdc.solvers.w_block import ImputedLatents, Point

ChainInit = Literal["cluster", "random", "given"]


def starting_states(init: ChainInit, chains: Chains, n_states: int, seed: int, given: Tensor | None, known: Tensor) -> Tensor:
    """(n, m) the first h*, zero beyond the end of a sequence.

    `cluster` takes the clusters of what is seen at the sites, by k-means; `random` draws every state alone; `given` the states `given`.

    Args:
        known: (n, m) the true state where it is known, −1 where not; it goes before any choice.

    >>> chains = Chains(torch.tensor([[0.0], [9.0], [0.1], [9.1]]), [2, 2])
    >>> a, b = starting_states("cluster", chains, 2, seed=0, given=None, known=torch.full((2, 2), -1))
    >>> bool((a == b).all() and a[0] != a[1])
    True
    """
    if init == "given":
        if given is None:
            raise ValueError("init='given' needs h_init=, the states to start from")
        start = given
    elif init == "random":
        # Drawn on the CPU so that a seed means the same start on every device.
        drawn = torch.randint(n_states, (chains.n_candidates,), generator=torch.Generator().manual_seed(seed))
        start = chains.pad(drawn.to(chains.device))
    elif init == "cluster":
        start = chains.pad(_clusters(chains, n_states, seed, chains.pack(known)))
    else:
        raise ValueError(f"init must be one of {', '.join(get_args(ChainInit))}, but it is {init!r}")
    return torch.where(known >= 0, known, start)


def _clusters(chains: Chains, n_states: int, seed: int, known: Tensor) -> Tensor:
    """(T,) k-means of the sites; a state of which sites are known begins at their mean, the others at sites of which nothing is."""
    from sklearn.cluster import KMeans

    sites, given = chains.features.float().cpu().numpy(), known.cpu().numpy()
    means = {s: sites[given == s].mean(axis=0) for s in range(n_states) if (given == s).any()}
    rest = np.unique(sites[given < 0], axis=0)
    free = n_states - len(means)
    if len(means) + len(rest) < n_states or len(rest) < free:
        raise ValueError(f"init='cluster' needs n_states = {n_states} different sites at least; choose init='random'")
    if means:
        drawn = iter(rest[np.random.default_rng(seed).choice(len(rest), free, replace=False)])
        centres = np.stack([means[s] if s in means else next(drawn) for s in range(n_states)])
        model = KMeans(n_states, init=centres, n_init=1)
    else:
        model = KMeans(n_states, n_init=1, random_state=seed)
    return torch.from_numpy(model.fit_predict(sites).astype(np.int64)).to(chains.device)


# The working parts of one training on chains.

if TYPE_CHECKING:
    pass


class ChainTraining:
    """What a learner of chains works with between `begin` and the last `step`: the w block, and P_θ as node marginals `p` (n, m, S)."""

    def __init__(self, learner: ChainLearner, chains: Chains, y: Tensor, known: Tensor, given: Tensor | None):
        self.candidates, self.y, self.loss, self.C = chains, y, learner.loss_, learner.C
        seen = chains.window(learner.window)
        self.hinge = ChainHinge(seen, y, learner.map_, learner.n_classes_, learner.C, self.loss.class_cost, known)
        self.start = starting_states(learner.init, chains, learner.n_states, learner.seed_, given, known)
        truth = ImputedLatents(self.hinge, rows=self.hinge.number(self.start))
        self.cccp = chain_block(self.hinge, learner.cccp, learner.C * learner.tol, truth, learner.seed_)
        self.p = self.delta(self.start)
        self.entropy = torch.zeros(len(y), device=y.device)  # (n,) of the posterior, which is a delta at first
        self.extra_passes = 0

    state, load_state = BlockTraining.state, BlockTraining.load_state

    @property
    def point(self) -> Point:
        return self.cccp.point

    @property
    def passes(self) -> float:
        """Passes over the sequences so far, of w and θ."""
        return self.hinge.passes + self.extra_passes

    def delta(self, h: Tensor) -> Tensor:
        """(n, m, S): the marginals of the posterior that puts all mass on labelings (n, m)."""
        chains = self.candidates
        one = torch.nn.functional.one_hot(h, self.hinge.map.n_states).to(torch.promote_types(chains.features.dtype, torch.float32))
        return one * chains.mask[..., None]

    def delta_at(self, truth: ImputedLatents) -> Tensor:
        """(n, m, S): the same on h*."""
        assert truth.rows is not None
        return self.delta(self.hinge.joint.h(truth.rows))

    def expected_loss(self, p: Tensor | None = None) -> Tensor:
        """(n, m, S): what the states of the sites add to Δ_i(y_i, h; θ) under the current posterior, or under p."""
        return self.loss.site_loss(self.p if p is None else p, self.candidates.counts)

    def objective(self, beta: float = 0.0, theta_norm: float | Tensor = 0.0) -> Objective:
        """(11) by its terms, under the current w and posterior."""
        xi = self.hinge.slack(self.point.scores, self.expected_loss())
        diversity = self.loss.diversity(self.p, self.candidates.counts)
        slack, spread = float(xi.double().mean()), float(diversity.double().mean())
        return Objective(half_square(self.point.w), float(theta_norm), slack, spread, self.C, beta)

    def measures(self) -> dict[str, float]:
        """Columns of the history beside the objective: the expected loss of the prediction (8), class error, entropy of the posterior."""
        y, h = self.hinge.predict(self.point.w)
        expected = self.loss.expected(self.p, h, self.candidates.counts)
        return {
            "loss": float(torch.where(y == self.y, expected, self.loss.class_cost).double().mean()),
            "error": float((y != self.y).double().mean()),
            "entropy": float(self.entropy.double().mean()),
        }


# What the learners of chains share.


class ChainLearner(LatentLearner):
    """Learns y and the states of the sites from sequences whose y is known: (y(w), h(w)) = argmax w·Ψ(x, y, h) by Viterbi (3).

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
    cccp: ChainRounds  # type: ignore[assignment]
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
        if chains.prior is not None:
            raise ValueError(f"{type(self).__name__} takes no prior of h, but one was given: leave out prior=, or give known states by h=")
        labels = chains.outputs(y, self.n_classes)
        self.n_classes_ = int(labels.max()) + 1 if self.n_classes is None else self.n_classes
        self.n_features_in_ = chains.n_features
        self._set_up()
        unknown = torch.where(chains.mask, -1, 0)
        known = unknown if h is None else chains.states(h, self.n_states, "h", unknown=True)
        given = None if h_init is None else chains.states(h_init, self.n_states, "h_init")
        self._training = ChainTraining(self, chains, labels, torch.where(chains.mask, known, -1), given)
        self._start_history()
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
        y, h = predict(self.map_, chains.window(self.window), self.coef_.to(chains.device))
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
