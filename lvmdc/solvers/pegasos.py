"""Stochastic subgradients for (14), with averaged iterates and a true gap.

S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter, Pegasos: primal estimated sub-gradient solver for SVM, Mathematical Programming 127,
2011; the average by which later iterates count more is that of S. Lacoste-Julien, M. Schmidt, F. Bach, A simpler approach to obtaining an
O(1/t) convergence rate for the projected stochastic subgradient method, 2012.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc.inference import best
from lvmdc.objective import half_square
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, Point, Progress, Solution, StructuredHinge

CHECK = 1.15  # the average is measured, which costs a pass, when there are this many times the epochs of the last time
POWER = 3.0  # iterate t counts as t³ in the average, so that the poor early ones soon have no part in it


class Pegasos(ConvexSolver):
    """w ← (1 − 1/t) w + C/t (Ψ(x_i, y_i, h*_i) − Ψ(x_i, ŷ_i, ĥ_i)), a batch of samples at a time, (ŷ_i, ĥ_i) the maximum of (9) at w.

    (14) is strongly convex of modulus 1, so 1/t is the optimal rate and nothing is left to tune. The answer is the average of the iterates,
    later ones counting more.

    The gap is a true one. An epoch visits every sample once, so its selections have a weight C/n for each sample: they are feasible in
    the dual of (14), and so is any mixture of epochs. The best dual value on the line from the mixture so far to the last epoch is kept
    as the lower bound.

    Slow where (14) must be solved well: its gap falls as 1/t. It needs neither planes nor a pass before it learns.

    Args:
        max_iter: the most epochs in one call.
        seed: of the order in which samples are visited.
        batch: samples in a step.

    >>> from lvmdc import Candidates, ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> latents = ImputedLatents(hinge, rows=torch.tensor([0, 1]))
    >>> round(Pegasos(hinge).solve(1 - torch.eye(2), latents, hinge.origin(), tol=0.02).value, 1)
    0.5
    """

    forgets = True

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, seed: int = 0, batch: int = 8):
        if batch < 1:
            raise ValueError(f"batch must be at least 1, but it is {batch}")
        super().__init__(hinge, max_iter)
        self.seed, self.batch = seed, batch
        self.epochs = 0  # in all calls so far

    def solve(self, expected_loss: Tensor, latents: ImputedLatents, start: Point, tol: float, share: float = 0.0) -> Solution:
        hinge = self.hinge
        progress = Progress(hinge, expected_loss, latents, start)
        run = _Run(hinge, expected_loss, latents, start)
        due = 1
        for epoch in range(1, self.max_iter + 1):
            run.epoch(self._batches(run.counting))
            self.epochs += 1
            if epoch < due and epoch < self.max_iter:
                continue
            due = max(epoch + 1, int(CHECK * epoch))
            here = hinge.at(run.average.clone())  # which changes in place later
            run.mix(*run.selected(*hinge.violated(here.scores, expected_loss)))
            progress.bound(run.lower)
            progress.take(here, hinge.convex_value(here, expected_loss, latents.mean))
            progress.look(here)
            if progress.enough(tol, share):
                break
        return progress.solution()

    def _batches(self, counting: np.ndarray) -> list[np.ndarray]:
        """The samples of positive weight, in another order for every epoch, cut into batches."""
        order = np.random.default_rng([self.seed, self.epochs]).permutation(counting)
        return np.split(order, range(self.batch, len(order), self.batch))

    def state(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state(self, state: dict[str, Any]) -> None:
        self.epochs = state["epochs"]


class _Run:
    """One (14): the iterate, its average, and the mixture of epochs with its dual value Σ α l − ½‖w(α)‖²."""

    def __init__(self, hinge: StructuredHinge, expected_loss: Tensor, latents: ImputedLatents, start: Point):
        self.hinge, self.expected_loss, self.latents = hinge, expected_loss, latents
        self.weights = hinge.weights
        self.counting = self.weights.nonzero().flatten().cpu().numpy()
        self.w, self.steps = start.w.clone(), 0
        self.average = torch.zeros_like(self.w)
        self.dual_w, self.dual_loss, self.lower = torch.zeros_like(self.w), 0.0, 0.0  # (14) is never negative: Δ ≥ 0
        self.offsets = hinge.candidates.offsets
        self.mixture = None if latents.rows is not None else latents.vectors()

    def epoch(self, batches: list[np.ndarray]) -> None:
        """A step for each batch, and the dual of all their selections."""
        hinge, n = self.hinge, len(self.hinge.y)
        classes, rows = hinge.y.clone(), self.offsets.clone()
        late = len(batches)  # the start counts as an epoch, without which the first step would forget it
        for batch in batches:
            samples = torch.from_numpy(batch).to(hinge.y.device)
            part = hinge.candidates.subset(samples)
            hinge.passes += part.n_candidates / hinge.candidates.n_candidates
            packed = self.offsets[samples][part.sample] + part.index(torch.arange(part.n_candidates, device=part.device))
            y, row = best(part, hinge.joint.scores(part, self.w) + self.expected_loss[packed])
            classes[samples], rows[samples] = y, packed[row]
            # Scaled so that the steps of an epoch are, on average, those of all samples, whatever the size of the last batch.
            towards = len(batches) * hinge.C / n * self.difference(samples, y, packed[row])
            self.steps += 1
            self.w += (towards - self.w) / (self.steps + late)
            self.average += (1 + POWER) / (self.steps + POWER) * (self.w - self.average)
        if batches:
            self.mix(*self.selected(classes, rows))

    def difference(self, samples: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        """(D,): Σ v_i (Ψ(x_i, y_i, h*_i) − Ψ(x_i, y, h)) over some samples."""
        hinge, weights = self.hinge, self.weights[samples]
        if self.mixture is None:
            assert self.latents.rows is not None
            both = torch.cat([hinge.y[samples], y]), torch.cat([self.latents.rows[samples], rows])
            return hinge.joint.sum(hinge.candidates, *both, torch.cat([weights, -weights]))
        vectors, blocks = self.mixture
        own = torch.zeros(hinge.size // vectors.shape[1], vectors.shape[1], dtype=torch.float64, device=vectors.device)
        own.index_add_(0, blocks[samples], vectors[samples].double() * weights[:, None])
        return own.flatten() - hinge.joint.sum(hinge.candidates, y, rows, weights)

    def selected(self, classes: Tensor, rows: Tensor) -> tuple[Tensor, float]:
        """w(α) and Σ α l of the dual weights C/n v_i on one (y, h) of each sample."""
        hinge = self.hinge
        w = hinge.C * (self.latents.mean - hinge.mean_psi(classes, rows))
        return w, hinge.C * hinge.mean(self.expected_loss[rows, classes])

    def mix(self, w: Tensor, loss: float) -> None:
        """Go as far from the mixture towards another dual point as is best for the dual, a quadratic along that line."""
        if self.lower == 0.0 and self.dual_loss == 0.0:
            self.dual_w, self.dual_loss = w, loss
        apart = w - self.dual_w
        rise, bend = loss - self.dual_loss - float(self.dual_w @ apart), float(apart @ apart)
        step = min(max(rise / bend, 0.0), 1.0) if bend > 0 else float(rise > 0)
        self.dual_w, self.dual_loss = self.dual_w + step * apart, self.dual_loss + step * (loss - self.dual_loss)
        self.lower = max(self.lower, self.dual_loss - half_square(self.dual_w))
