"""The one-slack cutting plane for (14), the solver of the paper.

T. Joachims, T. Finley, C.-N. Yu, Cutting-plane training of structural SVMs, Machine Learning 77, 2009; the line search
between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.inference import best
from lvmdc.solvers.cutting_planes import CuttingPlanes
from lvmdc.solvers.linear import level
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, Point, Progress, Solution, StructuredHinge

FLAT, STEPS = 0.05, 6  # how exactly to search along a line, in slopes and evaluations, each of which is a maximum over all (y, h)


class Selections(CuttingPlanes):
    """Planes l_c + w·(A_c − b): A_c is the mean Ψ of a selection of one (y, h) per sample, l_c its mean expected loss, b the mean Ψ of h*.

    A selection is a valid cut of (14) for any h* and θ: only l_c and b change.
    """

    def __init__(self, hinge: StructuredHinge):
        super().__init__(hinge.size, hinge.candidates.device)
        self.hinge = hinge
        self._chosen = torch.zeros(0, len(hinge.y), dtype=torch.long, device=hinge.y.device)  # (m, n) row · K + class
        self._weight = hinge.weight  # that the A_c were made with

    def rebase(self, expected_loss: Tensor, mean_psi: Tensor) -> None:
        """Change to another θ, h* or other weights of the samples."""
        if self._weight is not self.hinge.weight:
            self._make_slopes()
            self._gram = (self.slopes @ self.slopes.T).cpu().numpy()
        self._expected_loss = expected_loss
        self.set_base(mean_psi, self._mean_loss(self._chosen))

    def select(self, y: Tensor, rows: Tensor) -> None:
        """One more cut: a selection of classes (n,) and packed rows (n,)."""
        chosen = (rows * self._expected_loss.shape[1] + y)[None]
        self._chosen = torch.cat([self._chosen, chosen])
        self.add(self.hinge.mean_psi(y, rows), float(self._mean_loss(chosen)[0]))

    def keep(self, mask: np.ndarray) -> None:
        super().keep(mask)
        self._chosen = self._chosen[torch.from_numpy(mask).to(self._chosen.device)]

    def _make_slopes(self) -> None:
        self._weight, classes = self.hinge.weight, self.hinge.n_classes
        psi = [self.hinge.mean_psi(chosen % classes, chosen // classes) for chosen in self._chosen]
        self.slopes = torch.stack(psi) if psi else self.slopes

    def _mean_loss(self, chosen: Tensor) -> np.ndarray:
        """(m,): the mean loss of selections (m, n), by the weights of the samples."""
        losses = self._expected_loss.flatten()[chosen].double() * self.hinge.weights
        return distributed.mean(self.hinge.candidates, losses, dim=1).cpu().numpy()

    @property
    def _first(self) -> int:
        """What is added to the selections of this rank to number them within the whole set."""
        return distributed.first_row(self.hinge.candidates) * self.hinge.n_classes

    def state(self) -> dict[str, Tensor]:
        """The selections, and what cannot be computed from them to the last digit."""
        chosen = distributed.gather(self.hinge.candidates, self._chosen + self._first, "samples", dim=1)
        return {"chosen": chosen, "gram": torch.from_numpy(self._gram), "idle": torch.from_numpy(self.idle)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore from `state()`; `rebase` comes next."""
        self._chosen = distributed.own(self.hinge.candidates, state["chosen"].to(self._chosen.device), "samples", dim=1) - self._first
        self._gram, self.idle = state["gram"].cpu().numpy(), state["idle"].cpu().numpy()
        self._make_slopes()


class OneSlack(ConvexSolver):
    """min_w ½‖w‖² + C max_c (l_c + w·(A_c − b)), one cut per pass, see `Selections`.

    The cuts outlive a call, so that the next (14), with another h* or another θ, starts nearly solved.

    Args:
        max_iter: the most passes in one call.
        lookahead: the cut is taken at this fraction of the way from the best point to the master's.

    >>> from lvmdc import Candidates, ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> latents = ImputedLatents(hinge, rows=torch.tensor([0, 1]))
    >>> round(OneSlack(hinge).solve(1 - torch.eye(2), latents, hinge.origin(), tol=1e-9).value, 4)
    0.5
    """

    mixes_scores = True

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, lookahead: float = 0.3):
        super().__init__(hinge, max_iter)
        self.lookahead = lookahead
        self.cuts = Selections(hinge)

    def solve(self, expected_loss: Tensor, latents: ImputedLatents, start: Point, tol: float, share: float = 0.0) -> Solution:
        hinge, cuts, mean = self.hinge, self.cuts, latents.mean
        cuts.rebase(expected_loss, mean)
        progress = Progress(hinge, expected_loss, latents, start)
        cuts.select(*hinge.violated(start.scores, expected_loss))
        for _ in range(self.max_iter):
            w, dual = cuts.minimum(hinge.C)
            progress.bound(dual)
            if progress.enough(tol, share):
                break
            proposal = hinge.at(w)
            found = line_search(hinge, expected_loss, mean, progress.point, proposal)
            progress.take(found, hinge.convex_value(found, expected_loss, mean))
            progress.look(proposal)
            ahead = progress.point.towards(proposal, self.lookahead)
            cuts.select(*hinge.violated(ahead.scores, expected_loss))
        return progress.solution()

    def state(self) -> dict[str, Any]:
        return self.cuts.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self.cuts.load_state(state)


def line_search(hinge: StructuredHinge, expected_loss: Tensor, mean_psi: Tensor, start: Point, end: Point) -> Point:
    """Approximately the best point of (14) on the segment from `start` to `end`, by the slope of (14) at the maximising (y, h)."""
    augmented, rise = start.scores + expected_loss, (end.scores - start.scores).nan_to_num_(nan=0.0)  # −inf minus itself
    along = end.w - start.w
    constant, bend = float(along @ (start.w - hinge.C * mean_psi)), float(along @ along)

    def slope(step: float) -> float:
        y, rows = best(hinge.candidates, augmented.add(rise, alpha=step))
        return constant + step * bend + hinge.C * hinge.mean(rise[rows, y])

    return start.towards(end, level(slope, FLAT, limit=1.0, steps=STEPS))
