"""The learning objective: slack (9), upper bound (10) and regularised objective (11), each term apart."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.inference import best_value, own_class
from lvmdc.segments import segment_max


def slack(candidates: Candidates, scores: Tensor, expected_loss: Tensor, y: Tensor, known: Tensor | None = None) -> Tensor:
    """ξ_i = max_{y,h} [w·Ψ(x_i,y,h) + Δ_i(y,h;θ)] − max_h w·Ψ(x_i,y_i,h) (9), (n,).

    Args:
        scores: (T, K) w·Ψ of every (y, h).
        expected_loss: (T, K) Δ_i(y, h; θ).
        known: (n,) packed row of the true h where it is known, −1 where not: there the second maximum is its score alone.

    >>> c = Candidates(torch.zeros(2, 1), [2])
    >>> slack(c, torch.tensor([[1.0, 0.0], [0.0, 0.5]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([0]))
    tensor([0.5000])
    """
    return best_value(candidates, scores + expected_loss) - truth_score(candidates, scores, y, known)


def truth_score(candidates: Candidates, scores: Tensor, y: Tensor, known: Tensor | None = None) -> Tensor:
    """max_h w·Ψ(x_i, y_i, h), the score of the known h where there is one, (n,).

    >>> truth_score(Candidates(torch.zeros(2, 1), [2]), torch.tensor([[1.0, 0.0], [0.0, 0.5]]), torch.tensor([0]))
    tensor([1.])
    """
    own = own_class(candidates, scores, y)
    free = segment_max(own, candidates.counts)
    return free if known is None else torch.where(known >= 0, own[known.clamp(min=0)], free)


@dataclass(frozen=True)
class Objective:
    """½‖w‖² + J/2 ‖θ‖² + C/n Σ_i (ξ_i − β H_i(θ)) (11), by its terms.

    `w_norm` is ½‖w‖², `theta_norm` is J/2 ‖θ‖², `slack` and `diversity` are the means of ξ_i and H_i(θ), `bound` is U(w, θ) (10).

    >>> Objective(w_norm=0.5, theta_norm=0.1, slack=0.5, diversity=0.0, C=10.0, beta=0.1).value
    5.6
    """

    w_norm: float
    theta_norm: float
    slack: float
    diversity: float
    C: float
    beta: float

    @property
    def bound(self) -> float:
        return self.slack - self.beta * self.diversity

    @property
    def value(self) -> float:
        return self.w_norm + self.theta_norm + self.C * self.bound

    def terms(self) -> dict[str, float]:
        """What a row of a history shows."""
        shown = {k: v for k, v in asdict(self).items() if k not in ("C", "beta")}
        return {"objective": self.value, **shown, "bound": self.bound}


def half_square(parameters: Tensor) -> float:
    """½‖v‖² in float64.

    >>> half_square(torch.tensor([3.0, 4.0]))
    12.5
    """
    return 0.5 * float(parameters.detach().double().square().sum())
