"""The optimizers of w, θ and a network, and their rates, where the user gives none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from lvmdc import distributed
from lvmdc.candidates import Candidates

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[[Optimizer], Any]
Steps = dict[str, Any]  # an optimizer with its scheduler, as Lightning takes and saves it
HALVING = 100  # steps after which the rate of θ is half of what it was
NEURAL_RATE = 1e-3
BACKBONE_RATE = 1e-4
SAMPLED = 1 << 14  # candidates from which the length of the features is estimated


def steps(optimizer: Optimizer, scheduler: Any = None, interval: str = "epoch") -> Steps:
    """An optimizer whose scheduler, if any, steps every `epoch` or every `step`."""
    if scheduler is None:
        return {"optimizer": optimizer}
    watched = {"monitor": "objective"} if isinstance(scheduler, ReduceLROnPlateau) else {}
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": interval, **watched}}


def chosen(parameters: list[nn.Parameter], default: Steps, make: OptimizerFactory | None, schedule: SchedulerFactory | None) -> Steps:
    """The user's optimizer and scheduler, or the default where there are none; the user's optimizer has a constant rate by default."""
    optimizer = default["optimizer"] if make is None else make(parameters)
    if schedule is not None:
        return steps(optimizer, schedule(optimizer))
    return default if make is None else steps(optimizer)


def for_linear_w(parameters: list[nn.Parameter], candidates: Candidates, C: float, done: int = 0) -> Steps:
    """Subgradient steps of rate 1/(t + R√C), t = 1, 2, …, for a linear P_w.

    With h* held, ½‖w‖² + C·mean ξ is strongly convex of modulus 1 whatever the data, for which 1/t is the optimal rate (Shalev-Shwartz
    et al., Pegasos, 2011), without a constant to tune. ½‖w*‖² is at most the objective at w = 0, C·max Δ, so that for Δ ≤ 1 no step
    need be longer than √(2C). A step at rate 1 could have length √2·C·R, R the length of the features: hence the R√C.

    Args:
        done: how many steps count as taken, where w starts near its optimum.
    """
    late = mean_length(candidates, 2) * C**0.5 + done
    optimizer = torch.optim.SGD(parameters, lr=1 / (1 + late))
    return steps(optimizer, LambdaLR(optimizer, lambda t: (1 + late) / (1 + late + t)), "step")


def for_log_linear(parameters: list[nn.Parameter], candidates: Candidates, factor: float = 1.0) -> Steps:
    """Adam at rate factor/(1 + t/100) over the mean ‖Φ‖₁, for a log-linear P_θ; with factor T also for a P_w that is a softmax of scores
    divided by T.

    The objective is smooth, and where J is small nearly flat in most directions, so that the rate 1/(Jt) of Algorithm 2 is first far too
    large, then too small. A step of Adam moves every number of θ by about its rate, and thus no log-probability by more than about one.
    """
    optimizer = torch.optim.Adam(parameters, lr=factor / max(mean_length(candidates, 1), 1e-12))
    return steps(optimizer, LambdaLR(optimizer, lambda t: 1 / (1 + t / HALVING)), "step")


def for_network(parameters: list[nn.Parameter]) -> Steps:
    """Adam at its usual rate, for a P_w or P_θ that is a network."""
    return steps(torch.optim.Adam(parameters, lr=NEURAL_RATE))


def for_backbone(parameters: list[nn.Parameter], count: int, make: OptimizerFactory | None) -> Steps:
    """AdamW, or the user's optimizer, whose rate falls linearly to zero over `count` steps, for a network that describes candidates."""
    optimizer = torch.optim.AdamW(parameters, lr=BACKBONE_RATE) if make is None else make(parameters)
    return steps(optimizer, LambdaLR(optimizer, lambda t: max(0.0, 1 - t / count)), "step")


def mean_length(candidates: Candidates, order: int) -> float:
    """The mean length of the features in the norm of that order, from a sample that does not depend on the number of ranks."""
    whole, before = distributed.n_candidates(candidates), distributed.first_row(candidates)
    step = max(1, whole // SAMPLED)
    own = candidates.features[-before % step :: step].to(torch.float32)
    lengths = torch.zeros(-(-whole // step), device=own.device)
    first = -(-before // step)
    lengths[first : first + len(own)] = torch.linalg.vector_norm(own, ord=order, dim=1)
    return float(distributed.total(candidates, lengths).mean())
