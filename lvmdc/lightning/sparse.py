"""What w is kept small by: the square of its length, or a norm that makes it sparse, with the proximal step that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Norm = Literal["l2", "l1", "group"]
NORMS = get_args(Norm)


def norm_value(norm: Norm, w: Tensor) -> Tensor:
    """Ω(w) in float64, for w (K, d): ½‖w‖², Σ|w_kj|, or Σ_j ‖w_·j‖₂, one group for each feature across the classes.

    >>> w = torch.tensor([[3.0, 0.0], [4.0, 1.0]])
    >>> [float(norm_value(norm, w)) for norm in ("l2", "l1", "group")]
    [13.0, 8.0, 6.0]
    """
    w = w.double()
    if norm == "l2":
        return 0.5 * w.square().sum()
    return w.abs().sum() if norm == "l1" else torch.linalg.vector_norm(w, dim=0).sum()


def prox(norm: Norm, w: Tensor, step: float) -> Tensor:
    """argmin_v ½‖v − w‖² + step·Ω(v), for w (K, d).

    `l1` draws every number towards zero by `step`, `group` every column, as a whole, by as much of its length: a shorter one is zero then.

    >>> prox("group", torch.tensor([[3.0, 0.0], [4.0, 1.0]]), 1.0)
    tensor([[2.4000, 0.0000],
            [3.2000, 0.0000]])
    """
    if norm == "l2":
        return w / (1 + step)
    length = w.abs() if norm == "l1" else torch.linalg.vector_norm(w, dim=0, keepdim=True)
    return torch.where(length > step, w * (1 - step / length.clamp(min=torch.finfo(w.dtype).tiny)), 0.0)


# Regularised dual averaging: a stochastic solver of objectives with a sparse norm that gives exact zeros.
#
# L. Xiao, Dual averaging methods for regularized stochastic learning and online optimization, JMLR 11, 2010.


class DualAveraging(Optimizer):
    """w_{t+1} = argmin_w ⟨ḡ_t, w⟩ + Ω(w) + γ/(2√t) ‖w‖² for Ω(w) + E[f(w)], g_t a subgradient of f on a batch, ḡ_t their average.

    With r = √t/γ it is prox_{rΩ}(−r ḡ_t). A number, or a group, of which ḡ_t is shorter than one is exactly zero, however noisy a single
    batch is; a proximal subgradient step compares that noise with its threshold. In ḡ_t step s counts as s, so that h* and θ of long ago
    are forgotten.

    Args:
        params: matrices of weights (K, d).
        norm: Ω; see `norm_value`.
        gamma: γ, best about the length of g over that of the optimal w: with less w swings, with more it creeps.

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
