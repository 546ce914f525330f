"""The learning objective, equation by equation, and what every learner reports of it.

Expected loss (7) and the two terms of (8) belong to a loss and its samples: `lvmdc.losses.ExpectedLoss` has `expected_loss` (7),
`expected_at` (H_i(w, θ)) and `diversity` (H_i(θ)). Here are the slack (9), its bound (10) and the objective (11).
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from lvmdc import distributed
from lvmdc.candidates import Candidates
from lvmdc.distributions import Conditional
from lvmdc.inference import best_value, own_class
from lvmdc.losses.expectation import ExpectedLoss
from lvmdc.segments import segment_max


def slack(candidates: Candidates, scores: Tensor, expected_loss: Tensor, y: Tensor, known: Tensor | None = None) -> Tensor:
    """ξ_i = max_{y,h} [w·Ψ(x_i,y,h) + Δ_i(y,h;θ)] − max_h w·Ψ(x_i,y_i,h) (9), (n,).

    Args:
        scores: (T, K) w·Ψ of every (y, h).
        expected_loss: (T, K) Δ_i(y, h; θ).
        known: (n,) packed row of the true h where it is known, −1 where not; there the second maximum is the score of that h.

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
        """U(w, θ), the mean of ξ_i − β H_i(θ) (10)."""
        return self.slack - self.beta * self.diversity

    @property
    def value(self) -> float:
        """(11)."""
        return self.w_norm + self.theta_norm + self.C * self.bound

    def terms(self) -> dict[str, float]:
        """The columns of a history."""
        shown = {k: v for k, v in asdict(self).items() if k not in ("C", "beta")}
        return {"objective": self.value, **shown, "bound": self.bound}


def measures(loss: ExpectedLoss, p: Tensor, y_hat: Tensor, rows: Tensor) -> dict[str, float]:
    """What every learner reports beside its objective, means over the samples of all ranks: the expected loss of the prediction
    (y_hat, rows), (n,) each, under the posterior p (T,) (8), the class error, and the entropy of the posterior.

    >>> from lvmdc.losses import ZeroOneLoss
    >>> loss = ExpectedLoss(ZeroOneLoss(), Candidates(torch.eye(2), [2]), torch.tensor([0]), 2)
    >>> measures(loss, torch.tensor([0.25, 0.75]), torch.tensor([0]), torch.tensor([1]))
    {'loss': 0.25, 'error': 0.0, 'entropy': 0.5623351335525513}
    """
    c = loss.candidates
    each = {"loss": loss.expected_at(p, y_hat, rows), "error": y_hat != loss.y, "entropy": Conditional(c, loss.y, p).entropy()}
    means = torch.stack([distributed.mean(c, values) for values in each.values()])
    return dict(zip(each, means.tolist(), strict=True))


def half_squares(parameters: nn.Module | Iterable[Tensor]) -> Tensor:
    """½‖·‖² of tensors, or of all parameters of a module, in float64, differentiable.

    >>> half_squares([torch.tensor([3.0, 4.0])])
    tensor(12.5000, dtype=torch.float64)
    """
    parameters = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
    squares = [parameter.double().square().sum() for parameter in parameters]
    return 0.5 * torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)


def half_square(*parameters: Tensor) -> float:
    """½‖v‖² as a number.

    >>> half_square(torch.tensor([3.0, 4.0]))
    12.5
    """
    return float(half_squares(parameter.detach() for parameter in parameters))
