"""P_w and P_θ while they are being learned."""

from __future__ import annotations

import copy
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from lvmdc.distributions import ConditionalModel, LinearPrediction, NeuralPrediction, Prediction

Name = Literal["p_w", "p_theta"]


class Pair(nn.Module):
    """The two distributions as their optimizers move them, and the running averages that are measured and predicted with.

    Args:
        p_w: the prediction.
        p_theta: the conditional distribution; None where the learner has none.
        decay: how much later steps count in the average, step t as t^decay; None: no average, the last iterate counts.
        sparse: the zeros of w count: its average is zero where the last iterate is.
    """

    def __init__(self, p_w: Prediction, p_theta: ConditionalModel | None, decay: float | None, sparse: bool = False):
        super().__init__()
        self.p_w, self.p_theta, self.sparse = p_w, p_theta, sparse
        self.averages = nn.ModuleDict()
        # The running statistics of a network are not those of its averaged weights: only linear distributions are averaged.
        if decay is not None and self.linear_w:
            self.averages["p_w"] = running_average(p_w, decay)
        if decay is not None and p_theta is not None and self.linear_theta:
            self.averages["p_theta"] = running_average(p_theta, decay)

    @property
    def linear_w(self) -> bool:
        return not isinstance(self.p_w, NeuralPrediction)

    @property
    def linear_theta(self) -> bool:
        """Whether θ is a vector of weights on Φ and not a network; P_θ may be wrapped."""
        return self.theta and any(name.rpartition(".")[2] == "theta" for name, _ in self._theta_parameters())

    @property
    def theta(self) -> bool:
        """Whether P_θ has anything to learn."""
        return bool(self._theta_parameters())

    def _theta_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [] if self.p_theta is None else list(self.p_theta.named_parameters())

    def average(self, only: Name | None = None) -> None:
        """Take the current parameters, or those of one alone, into the averages; once a step."""
        for name, module in self.averages.items():
            assert isinstance(module, AveragedModel)
            if only in (None, name):
                module.update_parameters(getattr(self, name))

    def restart(self, name: Name) -> None:
        """Forget the steps that one took so far: it is to go elsewhere."""
        if name in self.averages:
            self.averages[name].get_buffer("n_averaged").zero_()

    def prediction(self) -> Prediction:
        """P_w as it stands: a copy that has no gradient and is not in training mode."""
        found: Prediction = self._frozen("p_w", self.p_w)
        if self.sparse:
            for mean, last in zip(found.parameters(), self.p_w.parameters(), strict=True):
                mean.masked_fill_(last == 0, 0.0)
        return found

    def conditional(self) -> ConditionalModel | None:
        """P_θ as it stands, likewise."""
        return None if self.p_theta is None else self._frozen("p_theta", self.p_theta)

    def _frozen(self, name: str, iterate: Any) -> Any:
        module = getattr(self.averages[name], "module") if name in self.averages else iterate  # noqa: B009 - typed as a tensor
        return copy.deepcopy(module).eval().requires_grad_(False)

    def learned(self) -> dict[str, Any]:
        """Both as tensors: `coef`, w, or None for a network; `prediction` and, where there is one, `theta`, the states of the modules."""
        p_w, p_theta = self.prediction(), self.conditional()
        coef = p_w.w.detach() if isinstance(p_w, LinearPrediction) else None
        found: dict[str, Any] = {"coef": coef, "prediction": dict(p_w.state_dict())}
        return found if p_theta is None else found | {"theta": dict(p_theta.state_dict())}

    def load_learned(self, learned: dict[str, Any]) -> None:
        """Take up what `learned` gave, as the iterates and as their averages."""
        for name, key in (("p_w", "prediction"), ("p_theta", "theta")):
            iterate = getattr(self, name)
            if iterate is not None:
                iterate.load_state_dict(learned[key])
            if name in self.averages:
                getattr(self.averages[name], "module").load_state_dict(learned[key])  # noqa: B009


def running_average(module: nn.Module, decay: float) -> AveragedModel:
    """The average of a module's parameters over the steps, in which step t counts about as t^decay: the last tenth for decay = 8.

    Polynomial-decay averaging (Shamir and Zhang, 2013): ā_t = ā_{t−1} + (decay + 1)/(t + decay) (a_t − ā_{t−1}). At the rate 1/t it takes
    the noise of the batches out, and it need not know when learning will end.
    """

    def mix(average: Tensor, new: Tensor, seen: Tensor | int) -> Tensor:
        return average + (new - average) * ((decay + 1) / (seen + 1 + decay))

    return AveragedModel(module, avg_fn=mix).requires_grad_(False)
