"""Weights that are averaged over the steps of stochastic learning."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from lvmdc.distributions import ConditionalModel, LinearPrediction, NeuralPrediction, Prediction


class AveragedWeights(nn.Module):
    """P_w and P_θ as their optimizers move them, and the running averages that are measured and predicted with.

    Only linear distributions are averaged: the running statistics of a network do not belong to its averaged weights.

    Args:
        p_w: the prediction.
        p_theta: the conditional distribution; None where the learner has none.
        decay: step t counts about as t^decay in the average; None: no average, the last iterate counts.
        sparse: keep the zeros of w: its average is zero where the last iterate is.
    """

    def __init__(self, p_w: Prediction, p_theta: ConditionalModel | None, decay: float | None, sparse: bool = False):
        super().__init__()
        self.p_w, self.p_theta, self.sparse = p_w, p_theta, sparse
        self.averages = nn.ModuleDict()
        if decay is not None and self.linear_w:
            self.averages["p_w"] = running_average(p_w, decay)
        if decay is not None and p_theta is not None and self.linear_theta:
            self.averages["p_theta"] = running_average(p_theta, decay)

    @property
    def linear_w(self) -> bool:
        return not isinstance(self.p_w, NeuralPrediction)

    @property
    def linear_theta(self) -> bool:
        """Whether P_θ is log-linear."""
        return self.p_theta is not None and self.p_theta.linear is not None

    @property
    def learns_theta(self) -> bool:
        """Whether P_θ has anything to learn."""
        return self.p_theta is not None and any(True for _ in self.p_theta.parameters())

    def update(self, *names: str) -> None:
        """Add the current parameters of `p_w`, `p_theta` or both to their averages; once per step."""
        for name, average in self.averages.items():
            if name in names:
                average.update_parameters(getattr(self, name))  # type: ignore[operator]

    def restart(self, name: str) -> None:
        """Forget the steps so far of `p_w` or `p_theta`, whose problem has changed."""
        if name in self.averages:
            self.averages[name].get_buffer("n_averaged").zero_()

    def prediction(self) -> Prediction:
        """The averaged P_w: a copy without gradients, in evaluation mode."""
        found: Prediction = self._frozen("p_w", self.p_w)
        if self.sparse:
            for mean, last in zip(found.parameters(), self.p_w.parameters(), strict=True):
                mean.masked_fill_(last == 0, 0.0)
        return found

    def conditional(self) -> ConditionalModel | None:
        """The averaged P_θ, likewise."""
        return None if self.p_theta is None else self._frozen("p_theta", self.p_theta)

    def _frozen(self, name: str, iterate: Any) -> Any:
        module = self.averages[name].get_submodule("module") if name in self.averages else iterate
        return copy.deepcopy(module).eval().requires_grad_(False)

    def learned(self) -> dict[str, Any]:
        """Both as tensors: `coef`, w, or None for a network; `prediction` and, where there is one, `theta`, the states of the modules."""
        p_w, p_theta = self.prediction(), self.conditional()
        coef = p_w.w.detach() if isinstance(p_w, LinearPrediction) else None
        found: dict[str, Any] = {"coef": coef, "prediction": dict(p_w.state_dict())}
        return found if p_theta is None else found | {"theta": dict(p_theta.state_dict())}

    def load_learned(self, learned: dict[str, Any]) -> None:
        """Restore from `learned()`, the iterates and their averages."""
        for name, key in (("p_w", "prediction"), ("p_theta", "theta")):
            iterate = getattr(self, name)
            if iterate is not None:
                iterate.load_state_dict(learned[key])
            if name in self.averages:
                self.averages[name].get_submodule("module").load_state_dict(learned[key])


def running_average(module: nn.Module, decay: float) -> AveragedModel:
    """The average of a module's parameters over the steps, in which step t counts about as t^decay: the last tenth for decay = 8.

    Polynomial-decay averaging (Shamir and Zhang, 2013): ā_t = ā_{t−1} + (decay + 1)/(t + decay) (a_t − ā_{t−1}). At the rate 1/t it
    removes the noise of the batches, and it need not know when learning will end.
    """

    def mix(average: Tensor, new: Tensor, seen: Tensor | int) -> Tensor:
        return average + (new - average) * ((decay + 1) / (seen + 1 + decay))

    return AveragedModel(module, avg_fn=mix).requires_grad_(False)
