"""The master problem of the cutting plane: a small dense quadratic program, handed to a library and checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.inference import best
from lvmdc.solvers.w_block import Point, StructuredHinge, Truth


def solve_master(gram: np.ndarray, loss: np.ndarray, C: float) -> np.ndarray:
    """The α ≥ 0, Σα ≤ 1 that maximises lᵀα − C/2 αᵀGα, the dual of the one-slack problem divided by C.

    Args:
        gram: (m, m) inner products g_c·g_c' of the cuts, positive semidefinite and often singular.
        loss: (m,) the right-hand sides l_c.

    >>> solve_master(np.array([[1.0]]), np.array([0.5]), C=1.0).round(6)
    array([0.5])
    """
    m = len(loss)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
    lower, upper = np.zeros(m), np.ones(m)
    solver.setup(np.asfortranarray(C * gram), -loss, None, None, np.ones((1, m), order="F"), np.array([-np.inf]), np.ones(1), lower, upper)
    status = solver.solve()
    # The last digits may be out of reach on a singular matrix; the caller measures the gap of what comes out, so that an
    # inexact α can cost iterations but never a wrong answer. A solve that failed altogether must not pass.
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED, piqp.PIQP_NUMERICS) or not np.isfinite(solver.result.x).all():
        raise RuntimeError(f"the master problem with {m} cuts was not solved: {status}")
    alpha = np.clip(solver.result.x, 0.0, 1.0)
    return alpha / max(1.0, alpha.sum())


# Search along a line in w, at no pass over the features.

STEPS = 6  # evaluations at most
FLAT = 0.05  # share of the slope at the start below which a slope counts as zero


def line_search(hinge: StructuredHinge, expected_loss: Tensor, truth: Tensor, start: Point, end: Point) -> tuple[Point, float]:
    """About the best of (14) on the segment from `start` to `end`, and its value, never above that of `start`.

    The objective is convex along the line, so its slope, taken at the maximising (y, h), says on which side the minimum lies;
    the place is found by the secant rule of Illinois, which halves the weight of an end that stays.
    """
    augmented, rise = start.scores + expected_loss, (end.scores - start.scores).nan_to_num_(nan=0.0)  # −inf minus itself
    along = end.w - start.w
    constant, bend = float(along @ (start.w - hinge.C * truth)), float(along @ along)

    def slope(step: float) -> float:
        y, rows = best(hinge.candidates, augmented.add(rise, alpha=step))
        return constant + step * bend + hinge.C * hinge.mean(rise[rows, y])

    low, high = 0.0, 1.0
    at_low, at_high = slope(0.0), slope(1.0)
    enough = FLAT * abs(at_low)
    if at_high <= enough:
        low = 1.0
    elif at_low < 0:
        for _ in range(STEPS):
            step = low - at_low * (high - low) / (at_high - at_low)
            here = slope(step)
            if here > enough:
                high, at_high, at_low = step, here, at_low / 2
            else:
                low, at_low, at_high = step, here, at_high / 2
                if here >= -enough:
                    break
    found = start.towards(end, low)
    before, after = (hinge.convex_value(p, expected_loss, truth) for p in (start, found))
    return (found, after) if after < before else (start, before)


# The cuts of the one-slack cutting plane, kept as selections so that they survive a change of h* or θ.

IDLE = 15  # master problems that a cut may sit out before it is dropped
ACTIVE = 1e-7  # share of C below which the master does not use a cut


class WorkingSet:
    """Cuts c = (A_c, l_c): the mean Ψ of a selection (ŷ_i, ĥ_i) of one (y, h) a sample, and its mean expected loss.

    A selection is a valid cut of (14) whatever h* and θ are; only its right-hand side l_c and the truth b change. The Gram matrix
    of the A_c grows by one row a cut, that of the directions A_c − b follows from it.
    """

    def __init__(self, hinge: StructuredHinge):
        self.hinge = hinge
        self._psi = torch.zeros(0, hinge.size, dtype=torch.float64, device=hinge.candidates.device)  # (m, D) A_c
        self._chosen = torch.zeros(0, len(hinge.y), dtype=torch.long, device=hinge.y.device)  # (m, n) row · K + class
        self._gram = np.zeros((0, 0))  # (m, m) A_c·A_c'
        self._cross = np.zeros(0)  # (m,) A_c·b
        self._idle = np.zeros(0, dtype=int)
        self._weight = hinge.weight  # that the A_c were made with
        self.loss = np.zeros(0)  # (m,) l_c

    def __len__(self) -> int:
        return len(self.loss)

    def rebase(self, expected_loss: Tensor, truth: Tensor) -> None:
        """Right-hand sides and inner products for a new θ or h*, and for other weights of the samples."""
        if self._weight is not self.hinge.weight:
            self._weight = self.hinge.weight
            self._set_psi()
            self._gram = (self._psi @ self._psi.T).cpu().numpy()
        self._expected_loss, self._truth = expected_loss, truth
        self._square = float(truth @ truth)
        self._cross = (self._psi @ truth).cpu().numpy()
        self.loss = self._mean_loss(self._chosen)

    def add(self, y: Tensor, rows: Tensor) -> None:
        """One more cut: a selection of classes (n,) and packed rows (n,)."""
        psi = self.hinge.mean_psi(y, rows)
        chosen = rows * self._expected_loss.shape[1] + y
        self._psi = torch.cat([self._psi, psi[None]])
        self._chosen = torch.cat([self._chosen, chosen[None]])
        row = (self._psi @ psi).cpu().numpy()
        m = len(self)
        gram = np.empty((m + 1, m + 1))
        gram[:m, :m], gram[m, :], gram[:, m] = self._gram, row, row
        self._gram = gram
        self._cross = np.append(self._cross, float(psi @ self._truth))
        self.loss = np.append(self.loss, self._mean_loss(chosen[None]))
        self._idle = np.append(self._idle, 0)

    @property
    def gram(self) -> np.ndarray:
        """(m, m) inner products of the directions A_c − b."""
        return self._gram - self._cross[:, None] - self._cross[None, :] + self._square

    def combine(self, alpha: np.ndarray) -> tuple[Tensor, float]:
        """The w of the master's dual weights and the dual value, a lower bound of (14); then cuts long idle are dropped."""
        C = self.hinge.C
        weight = torch.from_numpy(alpha).to(self._psi.device)
        w = C * (alpha.sum() * self._truth - weight @ self._psi)
        dual = C * float(alpha @ self.loss) - 0.5 * float(w @ w)
        self._idle = np.where(alpha > ACTIVE, 0, self._idle + 1)
        if (self._idle > IDLE).any():
            self._keep(self._idle <= IDLE)
        return w, dual

    def state(self) -> dict[str, Tensor]:
        """The selections and what cannot be had from them to the last bit: enough to go on as if never interrupted."""
        chosen = distributed.gather(self.hinge.candidates, self._chosen + self._first, "samples", dim=1)
        return {"chosen": chosen, "gram": torch.from_numpy(self._gram), "idle": torch.from_numpy(self._idle)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take up the cuts of `state`; `rebase` comes next."""
        self._chosen = distributed.own(self.hinge.candidates, state["chosen"].to(self._chosen.device), "samples", dim=1) - self._first
        self._gram, self._idle = state["gram"].cpu().numpy(), state["idle"].cpu().numpy()
        self._weight = self.hinge.weight
        self._set_psi()

    @property
    def _first(self) -> int:
        """What a selection that the first row of this rank has under class 0 is in the whole set."""
        return distributed.first_row(self.hinge.candidates) * self.hinge.n_classes

    def _set_psi(self) -> None:
        classes = self.hinge.n_classes
        psi = [self.hinge.mean_psi(chosen % classes, chosen // classes) for chosen in self._chosen]
        self._psi = torch.stack(psi) if psi else self._psi

    def _mean_loss(self, chosen: Tensor) -> np.ndarray:
        """(m,): the mean loss of selections (m, n), by the weights of the samples."""
        losses = self._expected_loss.flatten()[chosen].double() * self.hinge.weights
        return distributed.mean(self.hinge.candidates, losses, dim=1).cpu().numpy()

    def _keep(self, mask: np.ndarray) -> None:
        index = torch.from_numpy(np.flatnonzero(mask)).to(self._psi.device)
        self._psi, self._chosen = self._psi[index], self._chosen[index]
        self._gram = self._gram[np.ix_(mask, mask)]
        self._cross, self.loss, self._idle = self._cross[mask], self.loss[mask], self._idle[mask]


# The one-slack cutting plane for (14).
#
# T. Joachims, T. Finley, C.-N. Yu, Cutting-plane training of structural SVMs, Machine Learning 77, 2009; the line search
# between the best point and the master's is that of V. Franc and S. Sonnenburg, Optimized cutting plane algorithm, ICML 2008.

ROUNDING = 1e-9  # the share of the objective that float64 arithmetic can tell


@dataclass(frozen=True)
class Solution:
    """The best point found, its objective in (14), and how far at most it is from the optimum.

    `met` is what `Met` kept of the points that were looked at, where none was better than the start in (14) by more than rounding.

    >>> from lvmdc.solvers.w_block import Point
    >>> Solution(Point(torch.zeros(1), torch.zeros(1, 1)), value=1.0, gap=0.25).gap
    0.25
    """

    point: Point
    value: float
    gap: float
    met: Point | None = None


class OneSlack:
    """min_w ½‖w‖² + C max_c (l_c + w·(A_c − b)), one cut c a pass: A_c the mean Ψ of a selection, l_c its mean loss, b the truth's.

    The working set outlives a call, so that the next (14), with another h* or another θ, starts nearly solved.

    Args:
        max_iter: passes in one call at most.
        lookahead: the cut is taken at this fraction of the way from the best point to the master's.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> truth = Truth(hinge, rows=torch.tensor([0, 1]))
    >>> round(OneSlack(hinge).solve(loss, truth, hinge.origin(), tol=1e-9).value, 4)
    0.5
    """

    mixes_scores = True
    begins_anew = False

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, lookahead: float = 0.3):
        self.hinge, self.max_iter, self.lookahead = hinge, max_iter, lookahead
        self.cuts = WorkingSet(hinge)

    def gap(self, expected_loss: Tensor, truth: Truth, point: Point) -> float:
        """Infinite: nothing is known of another (14) before it is solved."""
        return float("inf")

    def solve(self, expected_loss: Tensor, truth: Truth, start: Point, tol: float, share: float = 0.0) -> Solution:
        """Lower (14) from `start` until at most `tol` above its optimum; never ends above where it started.

        Args:
            expected_loss: (T, K) Δ_i(y, h; θ).
            truth: Ψ(x_i, y_i, h*_i).
            share: also stop when the gap is at most this share of what was gained since `start`.
        """
        hinge, cuts, mean = self.hinge, self.cuts, truth.mean
        cuts.rebase(expected_loss, mean)
        best, first = start, hinge.convex_value(start, expected_loss, mean)
        value, lower = first, 0.0  # (14) is never negative: Δ ≥ 0
        reachable, met = rounding(start.scores), Met(hinge, expected_loss, first)
        cuts.add(*hinge.violated(start.scores, expected_loss))
        for _ in range(self.max_iter):
            w, dual = cuts.combine(solve_master(cuts.gram, cuts.loss, hinge.C))
            lower = max(lower, dual)
            if value - lower <= max(tol, reachable * value, share * (first - value)):
                break
            proposal = hinge.at(w)
            best, value = line_search(hinge, expected_loss, mean, best, proposal)
            met.look(proposal, value)
            ahead = best.towards(proposal, self.lookahead)
            cuts.add(*hinge.violated(ahead.scores, expected_loss))
        return Solution(best, value, value - lower, met.point)

    def state(self) -> dict[str, Any]:
        """The cuts, as tensors."""
        return self.cuts.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was taken."""
        self.cuts.load_state(state)


class Met:
    """Of points that are looked at, the first one that has a lower (13) than w = 0 has, or that of lowest (13) while there is none; nothing
    at all once (14) has fallen from `first` by more than rounding.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> met = Met(hinge, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), first=1.0)
    >>> for size in (9.0, 0.5, 0.6):
    ...     met.look(hinge.at(torch.tensor([size, 0.0, 0.0, size])), so_far=1.0)
    >>> met.point.w[0], met.value
    (tensor(0.5000), 0.75)
    >>> met.look(hinge.origin(), so_far=0.9)
    >>> print(met.point)
    None
    """

    def __init__(self, hinge: StructuredHinge, expected_loss: Tensor, first: float):
        self.hinge, self.expected_loss, self.first = hinge, expected_loss, first
        self.point: Point | None = None
        self.value, self.origin = float("inf"), hinge.value_at_origin(expected_loss)

    def look(self, point: Point, so_far: float, value: float | None = None) -> None:
        """At a point, when the lowest (14) is `so_far`; its (13) need not be computed where it is given."""
        if self.first - so_far > rounding(self.expected_loss) * self.first:
            self.point, self.value = None, -float("inf")
        if self.value < self.origin:
            return
        value = self.hinge.value(point, self.expected_loss) if value is None else value
        if value < self.value:
            self.point, self.value = point, value


def rounding(scores: Tensor) -> float:
    """The share of the objective below which a gap cannot be told from rounding: some 1e-7 where scores are in float32.

    >>> rounding(torch.zeros(1, dtype=torch.float64))
    1e-09
    """
    return max(ROUNDING, 2 * torch.finfo(scores.dtype).eps)
