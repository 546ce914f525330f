"""Sparse norms of w, and dual averaging, a stochastic solver that gives exact zeros.

L. Xiao, Dual averaging methods for regularized stochastic learning and online optimization, JMLR 11, 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lvmdc.distributions import LinearPrediction, Prediction
from lvmdc.learners import LatentLearner
from lvmdc.lightning.alternating import AlternatingModule
from lvmdc.lightning.optimizers import Steps, mean_length, steps

Norm = Literal["l1", "group"]
CANCEL = 3  # by how much shorter the subgradient of a batch is than those of its samples, about


class SparseModule(AlternatingModule):
    """Learns (11) with a norm Ω(w) in place of ½‖w‖², Σ|w_kj| (`l1`) or Σ_j ‖w_·j‖ (`group`), for a linear P_w: w has exact zeros.

    w moves by `DualAveraging`, and its average is zero where the last iterate is.

    Args:
        norm: `l1` drops single numbers of w, `group` drops features for all classes.
        options: `optimizer_theta`, `scheduler` of its rate, `conditional`, `warmup_epochs`, `patience` and `average` of
            `AlternatingModule`.
    """

    def __init__(self, learner: LatentLearner, config: dict[str, Any] | None = None, norm: Norm = "l1", **options: Any):
        if norm not in get_args(Norm):
            raise ValueError(f"norm must be one of {', '.join(get_args(Norm))}, but it is {norm!r}")
        if options.get("prediction") or learner.joint is not None:
            raise ValueError(
                f"norm={norm!r} is for a linear P_w with one block of weights per class, but prediction= or joint= says otherwise"
            )
        if options.get("optimizer_w") is not None:
            raise ValueError(f"norm={norm!r} moves w by dual averaging, which makes its zeros, but optimizer_w asks for another optimizer")
        super().__init__(learner, config, **options)
        if options.get("scheduler") is not None and not self.has_theta:
            raise ValueError(f"norm={norm!r} moves w by dual averaging, which has no rate, but scheduler would change one")
        self.norm, self.sparse = norm, True

    def w_norm(self, p_w: Prediction) -> Tensor:
        """Ω(w), without a derivative: dual averaging takes it by a proximal step."""
        assert isinstance(p_w, LinearPrediction)
        return norm_value(self.norm, p_w.w.detach())

    def make_optimizers(self) -> dict[str, Steps]:
        """For w dual averaging with γ = C R²/(3√d).

        γ is best the length of a subgradient, about C·R for features of length R, over that of w. A sparse w looks at few of the d
        features, each about R/√d large, and a score that matters is about 1: hence √d/R for w. The subgradients of a batch cancel in part:
        hence the 3.
        """
        c = self.samples.candidates
        squared = max(mean_length(c, 2) ** 2, 1e-12)
        gamma = self.learner.C * squared / (CANCEL * c.n_features**0.5)
        return super().make_optimizers() | {"p_w": steps(DualAveraging(self.p_w.parameters(), self.norm, gamma))}


def norm_value(norm: Norm, w: Tensor) -> Tensor:
    """Ω(w) in float64, for w (K, d): Σ|w_kj|, or Σ_j ‖w_·j‖₂, one group for each feature across the classes.

    >>> w = torch.tensor([[3.0, 0.0], [4.0, 1.0]])
    >>> [float(norm_value(norm, w)) for norm in ("l1", "group")]
    [8.0, 6.0]
    """
    w = w.double()
    return w.abs().sum() if norm == "l1" else torch.linalg.vector_norm(w, dim=0).sum()


def prox(norm: Norm, w: Tensor, step: float) -> Tensor:
    """argmin_v ½‖v − w‖² + step·Ω(v), for w (K, d).

    `l1` moves every number towards zero by `step`, `group` shortens every column by `step`; what is shorter becomes zero.

    >>> prox("group", torch.tensor([[3.0, 0.0], [4.0, 1.0]]), 1.0)
    tensor([[2.4000, 0.0000],
            [3.2000, 0.0000]])
    """
    length = w.abs() if norm == "l1" else torch.linalg.vector_norm(w, dim=0, keepdim=True)
    return torch.where(length > step, w * (1 - step / length.clamp(min=torch.finfo(w.dtype).tiny)), 0.0)


class DualAveraging(Optimizer):
    """w_{t+1} = argmin_w ⟨ḡ_t, w⟩ + Ω(w) + γ/(2√t) ‖w‖² for Ω(w) + E[f(w)], g_t a subgradient of f on a batch, ḡ_t their average.

    With r = √t/γ it is prox_{rΩ}(−r ḡ_t). A number, or a group, of which ḡ_t is shorter than one is exactly zero, however noisy a single
    batch is; a proximal subgradient step compares that noise with its threshold. In ḡ_t step s counts as s, so that an old h* and θ are
    forgotten.

    Args:
        params: matrices of weights (K, d).
        norm: Ω; see `norm_value`.
        gamma: γ, best about the length of g over that of the optimal w: with less w swings, with more it is slow.

    >>> w = nn.Parameter(torch.zeros(1, 2))
    >>> optimizer = DualAveraging([w], "l1", gamma=1.0)
    >>> for t in range(100):  # f(w) = 2 |w_1 − 1| + ½ |w_2 − 1|: only the first is worth its norm
    ...     loss = (torch.tensor([2.0, 0.5]) * (w - 1).abs()).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    >>> w.data.round(decimals=1)
    tensor([[1., 0.]])
    """

    def __init__(self, params: Iterable[nn.Parameter], norm: Norm, gamma: float):
        if not gamma > 0:
            raise ValueError(f"gamma must be positive, but it is {gamma}")
        super().__init__(params, {"norm": norm, "gamma": gamma})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step, from the gradients that the parameters hold."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    self._move(w, w.grad, group)
        return loss

    def _move(self, w: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[w]
        if not state:
            state["step"], state["mean"] = 0, torch.zeros_like(w)
        state["step"] += 1
        t, mean = state["step"], state["mean"]
        mean.add_(gradient - mean, alpha=2 / (t + 1))
        rate = t**0.5 / group["gamma"]
        w.copy_(prox(group["norm"], -rate * mean, rate))
