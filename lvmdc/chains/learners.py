"""The latent structural SVM on chains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike
from lvmdc.chains.distribution import ChainConditional, ChainDistribution
from lvmdc.chains.hamming import HammingLoss
from lvmdc.chains.learner import ChainInit, ChainLearner, check_chains
from lvmdc.chains.n_slack import ChainRounds
from lvmdc.chains.scores import ChainMap
from lvmdc.chains.sequences import Chains
from lvmdc.chains.theta_block import ChainPosteriorProblem
from lvmdc.chains.w_block import own_viterbi
from lvmdc.learners.base import on_device
from lvmdc.learners.disc import DISC, THETA_TOL
from lvmdc.learners.lsvm import ROUNDS, BlockLearner
from lvmdc.objective import Objective, half_square
from lvmdc.solvers.theta_block import ThetaBound


class ChainLSVM(ChainLearner):
    """½‖w‖² + C/n Σ_i ξ_i, where ξ_i measures the loss from h*_i = argmax_h w·Ψ(x_i, y_i, h): CCCP, with Viterbi for every maximum.

    What is believed of h is a delta at h*; see `LSVM`.

    >>> from lvmdc.chains import Chains
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # two sequences: the same two sites in either order
    >>> model = ChainLSVM(n_states=2, C=10.0).fit(Chains(x, [2, 2]), [0, 1])
    >>> model.predict(Chains(x, [2, 2]))[0]
    tensor([0, 1])
    """

    def _begin(self) -> None:
        """The posterior starts where h* does."""

    def _step(self) -> dict[str, float]:
        t = self._training
        rounded = t.cccp.run(lambda latents: t.expected_loss(t.delta_at(latents)), ROUNDS)
        t.p = t.delta_at(t.cccp.latents)
        self.converged_ = rounded.converged
        return {**t.objective().terms(), **t.measures(), "decrease": rounded.decrease, "gap": rounded.gap}

    def _marginals(self, chains: Chains, y: Tensor) -> Tensor:
        _, h = own_viterbi(self.map_, chains.window(self.window), self.coef_.to(chains.device), y)
        return torch.nn.functional.one_hot(h, self.n_states).to(chains.features.dtype) * chains.mask[..., None]


# DISC on chains: P_w and P_θ over labelings too many to list.


class ChainDISC(ChainLearner, BlockLearner):
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i (ξ_i(w, θ) − β H_i(θ)) (11) by block coordinate descent: w by CCCP, then θ by L-BFGS.

    Both blocks cost O(m S²) a sequence: the maxima are Viterbi's, and the loss needs the node marginals of P_θ alone.
    What it takes beyond `ChainLearner`:

    Args:
        J: weight of ‖θ‖² in (11).
        beta: β of the dissimilarity coefficient (2), in (0, 1).
        theta_bound: what the θ block minimises, the expected loss of the prediction (`prediction`, (15)) or its bound (`slack`, (16)).
        theta_window: how many neighbours on either side a site of P_θ sees.
        theta_transitions: whether P_θ scores pairs of neighbours; without, its sites are independent.

    >>> from lvmdc.chains import Chains
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # two sequences: the same two sites in either order
    >>> model = ChainDISC(n_states=2, C=10.0).fit(Chains(x, [2, 2]), [0, 1])
    >>> model.predict(Chains(x, [2, 2]))[0], model.predict_latent_proba(Chains(x, [2, 2]), [0, 1]).shape
    (tensor([0, 1]), torch.Size([4, 2]))
    """

    def __init__(
        self,
        n_states: int,
        loss: HammingLoss | None = None,
        C: float = 1.0,
        J: float = 0.1,
        beta: float = 0.1,
        tol: float = 1e-3,
        window: int = 0,
        transitions: bool = True,
        theta_window: int = 0,
        theta_transitions: bool = True,
        theta_bound: ThetaBound = "prediction",
        init: ChainInit = "cluster",
        seed: int = 0,
        n_init: int = 1,
        max_iter: int = 50,
        cccp: ChainRounds = "strict",
        n_classes: int | None = None,
        verbose: bool = False,
    ):
        super().__init__(n_states, loss, C, tol, window, transitions, init, seed, n_init, max_iter, cccp, n_classes, verbose)
        self.J, self.beta, self.theta_bound = J, beta, theta_bound
        self.theta_window, self.theta_transitions = theta_window, theta_transitions

    def check_parameters(self) -> None:
        super().check_parameters()
        DISC(C=self.C, J=self.J, beta=self.beta, theta_bound=self.theta_bound).check_parameters()  # the same hold for both
        if not isinstance(self.theta_window, int) or self.theta_window < 0:
            raise ValueError(f"theta_window must be an integer of at least 0, but it is {self.theta_window}")

    def _begin(self) -> None:
        t = self._training
        self._phi = self._for_phi(t.candidates)
        phi_map = ChainMap(self.n_states, self._phi.n_features, self.theta_transitions)
        self.model_ = ChainConditional(torch.zeros(self.n_classes_, phi_map.size, dtype=torch.float64, device=t.y.device), phi_map)
        self._refresh()

    def _for_phi(self, chains: Chains) -> Chains:
        """The sequences as P_θ sees them."""
        return chains.for_phi().window(self.theta_window)

    def _refresh(self) -> None:
        t = self._training
        with torch.no_grad():
            t.p = self.model_.marginals(self._phi, t.y, t.hinge.fixed).to(t.p)
            t.entropy = self.model_.entropy(self._phi, t.y, t.hinge.fixed)

    def _step_posterior(self) -> float:
        t = self._training
        problem = ChainPosteriorProblem(
            self.model_, self._phi, t.hinge, self.loss_, t.point.w, self.J, self.beta, self.theta_bound, t.hinge.fixed
        )
        gained = problem.lower(THETA_TOL * self.C * self.tol)
        t.extra_passes += problem.evaluations
        self._refresh()
        return gained

    def _objective(self) -> Objective:
        return self._training.objective(self.beta, self.J * half_square(self.model_.theta))

    # ---- keeping and using ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"theta": self.theta_.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        theta = state["theta"].to(self._phi.device if hasattr(self, "_training") else state["theta"].device)
        seen = theta.shape[1] // self.n_states - self.theta_transitions * self.n_states
        self.model_ = ChainConditional(theta, ChainMap(self.n_states, seen, self.theta_transitions))

    @property
    def theta_(self) -> Tensor:
        """θ (K, size of φ)."""
        self._check_fitted("theta_")
        return self.model_.theta.detach()

    def latent_distribution(self, chains: Chains, y: ArrayLike) -> ChainDistribution:
        """P_θ(h | x, y) of each sequence, for edge marginals, samples and the most probable labeling."""
        self._check_input(chains, "latent_distribution")
        labels = chains.outputs(y, self.n_classes_)
        with torch.no_grad():
            return on_device(self.model_, chains.device)(self._check_phi(chains), labels)

    def _marginals(self, chains: Chains, y: Tensor) -> Tensor:
        return on_device(self.model_, chains.device).marginals(self._check_phi(chains), y)

    def _check_phi(self, chains: Chains) -> Chains:
        seen = self._for_phi(check_chains(chains))
        if seen.n_features != self.model_.map.n_features:
            width = 2 * self.theta_window + 1
            raise ValueError(
                f"chains must give Φ the {self.model_.map.n_features // width} numbers a site that θ has from fit, "
                f"but they give {seen.n_features // width}; see phi="
            )
        return seen
