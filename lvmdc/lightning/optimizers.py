"""How the stochastic solver steps unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.learners import LatentLearner
from lvmdc.lightning.sparse import DualAveraging, Norm

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[[Optimizer], Any]
HALVING = 100  # steps after which the rate of θ is half of what it was
NEURAL_RATE = 1e-3
BACKBONE_RATE = 1e-4
CANCEL = 3  # by how much shorter the subgradient of a batch is than those of its samples, about
LOOKED_AT = 1 << 14  # candidates from which the length of the features is estimated


@dataclass(frozen=True)
class Stepper:
    """An optimizer, and the scheduler of its rate if there is one, which steps with every batch or every epoch."""

    optimizer: Optimizer
    scheduler: Any = None
    by_step: bool = False

    def configuration(self) -> dict[str, Any]:
        """As Lightning takes it, so that it keeps their state in checkpoints."""
        found: dict[str, Any] = {"optimizer": self.optimizer}
        if self.scheduler is not None:
            watched = {"monitor": "objective"} if isinstance(self.scheduler, ReduceLROnPlateau) else {}
            found["lr_scheduler"] = {"scheduler": self.scheduler, "interval": "step" if self.by_step else "epoch", **watched}
        return found

    def end_epoch(self, objective: float) -> None:
        """Step a scheduler that goes by epochs."""
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(objective)
        elif self.scheduler is not None and not self.by_step:
            self.scheduler.step()


def stepper(parameters: list[nn.Parameter], default: Stepper, make: OptimizerFactory | None, schedule: SchedulerFactory | None) -> Stepper:
    """What the user asked for, the default where nothing was: an optimizer of one's own keeps its rate unless `schedule` changes it."""
    optimizer = default.optimizer if make is None else make(parameters)
    if schedule is not None:
        return Stepper(optimizer, schedule(optimizer))
    return default if make is None else Stepper(optimizer)


def default_for_linear_w(parameters: list[nn.Parameter], candidates: Candidates, learner: LatentLearner, norm: Norm) -> Stepper:
    """What suits the objective of the learner, and the norm of w in it."""
    if norm != "l2":
        return default_for_sparse_w(parameters, candidates, learner.C, norm)
    if learner.temperature is not None:  # P_w is a distribution
        return default_for_soft_w(parameters, candidates, learner.temperature)
    return default_for_w(parameters, candidates, learner.C)


def default_for_w(parameters: list[nn.Parameter], candidates: Candidates, C: float, done: int = 0) -> Stepper:
    """Subgradient steps of rate 1/(t + R√C), t = 1, 2, …, for a linear P_w.

    With h* held, ½‖w‖² + C·mean ξ is strongly convex of modulus 1 whatever the data, for which 1/t is the optimal rate (Shalev-Shwartz
    et al., Pegasos, 2011): nothing is left to tune. ½‖w*‖² is at most the objective at w = 0, C·max Δ, so that for Δ ≤ 1 no step
    need be longer than √(2C); a step at rate 1 could have length √2·C·R, R the length of the features: hence the R√C. `done` steps count as
    taken, where w is near its optimum already.
    """
    late = _length(candidates, 2) * C**0.5 + done
    first = 1 / (1 + late)
    optimizer = torch.optim.SGD(parameters, lr=first)
    return Stepper(optimizer, LambdaLR(optimizer, lambda t: (1 + late) / (1 + late + t)), by_step=True)


def counting(parameters: list[nn.Parameter]) -> Stepper:
    """For a w that moves by itself: what Lightning counts the steps by."""
    return Stepper(torch.optim.SGD(parameters, lr=0.0))


def default_for_sparse_w(parameters: list[nn.Parameter], candidates: Candidates, C: float, norm: Norm) -> Stepper:
    """Dual averaging with γ = C R²/(3√d), for a linear P_w under a norm that is not strongly convex.

    γ is best the length of a subgradient, about C·R for features of length R, over that of w. A sparse w looks at few of the d features,
    each about R/√d large, and a score that matters is about 1: hence √d/R for w. The subgradients of a batch cancel in part: hence the 3.
    """
    squared = max(_length(candidates, 2) ** 2, 1e-12)
    return Stepper(DualAveraging(parameters, norm, C * squared / (CANCEL * candidates.n_features**0.5)))


def default_for_theta(parameters: list[nn.Parameter], candidates: Candidates, factor: float = 1.0) -> Stepper:
    """Adam at rate 1/(1 + t/100) over the mean ‖Φ‖₁, for a log-linear P_θ.

    Its objective is smooth, and where J is small nearly flat in most directions: the 1/(Jt) of Algorithm 2 first leaps, then crawls.
    A step of Adam moves every number of θ by about its rate, so that no candidate's log-probability moves by more than about one.
    """
    return _adam(parameters, candidates.for_phi(), factor)


def default_for_soft_w(parameters: list[nn.Parameter], candidates: Candidates, temperature: float) -> Stepper:
    """The same for a w whose P_w is a softmax, over the mean ‖Ψ‖₁ and at T times the rate: its scores are divided by T."""
    return _adam(parameters, candidates, temperature)


def default_for_backbone(parameters: list[nn.Parameter], steps: int, make: OptimizerFactory | None) -> Stepper:
    """AdamW, unless `make` says otherwise, whose rate falls evenly to zero over so many steps: what was learned before is only mended."""
    optimizer = torch.optim.AdamW(parameters, lr=BACKBONE_RATE) if make is None else make(parameters)
    return Stepper(optimizer, LambdaLR(optimizer, lambda t: max(0.0, 1 - t / steps)), by_step=True)


def default_for_module(parameters: list[nn.Parameter]) -> Stepper:
    """Adam at its usual rate, for a neural network of one's own."""
    return Stepper(torch.optim.Adam(parameters, lr=NEURAL_RATE))


def _adam(parameters: list[nn.Parameter], candidates: Candidates, factor: float) -> Stepper:
    optimizer = torch.optim.Adam(parameters, lr=factor / max(_length(candidates, 1), 1e-12))
    return Stepper(optimizer, LambdaLR(optimizer, lambda t: 1 / (1 + t / HALVING)), by_step=True)


def _length(candidates: Candidates, order: int) -> float:
    """The mean length of the features in the norm of that order, from some of the candidates: the same ones over any number of ranks."""
    whole, before = distributed.n_candidates(candidates), distributed.first_row(candidates)
    step = max(1, whole // LOOKED_AT)
    own = candidates.features[-before % step :: step].to(torch.float32)
    lengths = torch.zeros(-(-whole // step), device=own.device)
    first = -(-before // step)
    lengths[first : first + len(own)] = torch.linalg.vector_norm(own, ord=order, dim=1)
    return float(distributed.total(candidates, lengths).mean())
