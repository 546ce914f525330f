"""A linear w by its dual: mini-batches without a learning rate, and a proof of the distance to the optimum.

S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher, Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013; the
pairwise steps are those of S. Lacoste-Julien, M. Jaggi, On the global linear convergence of Frank–Wolfe variants, NeurIPS 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.compiled import Array, compiled
from lvmdc.distributions import ConditionalModel, LinearPrediction, Prediction, score_dtype
from lvmdc.feature_maps import JointFeatureMap
from lvmdc.inference import best, best_value
from lvmdc.lightning.batches import Batch, TrainingSet
from lvmdc.objective import half_square
from lvmdc.segments import segment_max

STEPS = 4  # on a batch before the next: its losses and rows are in memory, and a step moves weight between two (y, h) of a sample alone
NEGLIGIBLE = 1e-6  # of weight, which rounding leaves behind
SWEEPS = 20  # at most; what is left after a few is far below what the next pass over the features changes
FLAT = 1e-30  # the least curvature to divide by
ENOUGH = 1e-3  # a sweep that gains less than this share of the whole is the last


@dataclass(frozen=True)
class Bounds:
    """The value of (14) at a w and at w = 0, and a lower bound on its minimum, the value of the dual."""

    value: float
    origin: float
    dual: float

    @property
    def gap(self) -> float:
        """How far the w is above the optimum at most."""
        return max(self.value - self.dual, 0.0)


class DualSteps:
    """½‖w‖² + C/n Σ_i (max_{y,h} [w·Ψ(x_i,y,h) + Δ_i(y,h)] − w·Ψ(x_i,y_i,h*_i)) (14), h* held, by its dual:

        max_α C/n Σ_i Σ_{y,h} α_i(y,h) Δ_i(y,h) − ½‖w(α)‖²,  w(α) = C/n Σ_i (Ψ(x_i,y_i,h*_i) − Σ_{y,h} α_i(y,h) Ψ(x_i,y,h)),

    α_i a distribution over (y, h). A step moves weight, for each sample of a batch, from the (y, h) of least w·Ψ + Δ that has any to the
    one of most, by the amounts that are best for the batch: a quadratic problem with one number per sample (`box_ascent`). No step lowers
    the dual, whatever the batches, and none needs a rate. When P_θ moves, the losses change under the same α; when h* moves, w is
    computed again.

    α and h* have the size of the scores of all candidates, (T, K) and (T,): over several ranks each has those of its own samples.

    Args:
        samples: the training set, whose `start` is h*.
        joint: Ψ.

    >>> from lvmdc import Candidates, ZeroOneLoss
    >>> from lvmdc.feature_maps import ClassBlocks
    >>> c, y, known = Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), torch.tensor([0, 1])
    >>> samples = TrainingSet(c, y, ZeroOneLoss(), 2, torch.ones(2), known)
    >>> dual, p_w = DualSteps(samples, ClassBlocks(2), C=1.0), LinearPrediction(torch.zeros(2, 2))
    >>> batch = dual.batch(torch.arange(2))
    >>> dual.advance(batch, p_w, batch.loss.expected_loss(torch.ones(2)))
    >>> p_w.w.data
    tensor([[ 0.5000, -0.5000],
            [-0.5000,  0.5000]])
    """

    def __init__(self, samples: TrainingSet, joint: JointFeatureMap, C: float):
        self.samples, self.joint, self.weight = samples, joint, C / distributed.n_samples(samples.candidates)
        self.alpha = samples.start.new_zeros(len(samples.start), samples.n_classes, dtype=score_dtype(samples.candidates))
        self._put_on_h_star(torch.ones_like(samples.y))  # so that w = 0

    def _put_on_h_star(self, weight: Tensor) -> None:
        """Add the weight (n,) of each sample to α at its h*."""
        c = self.samples.candidates
        added = self.samples.start * weight[c.sample]
        self.alpha.scatter_add_(1, self.samples.y[c.sample, None], added.to(self.alpha)[:, None])

    def to(self, samples: TrainingSet) -> None:
        """Continue on another device."""
        self.samples, self.alpha = samples, self.alpha.to(samples.y.device)

    def batch(self, index: Tensor) -> Batch:
        """The samples `index` (m,) of the whole set that are here; where every rank has all samples, each takes the same steps."""
        index = index.sort().values  # one order over any number of ranks, which have their samples in it
        return self.samples.batch(index) if self.samples.candidates.shard else self.samples.take(index.to(self.samples.y.device))

    @torch.no_grad()
    def advance(self, batch: Batch, p_w: LinearPrediction, expected_loss: Tensor) -> None:
        """Move w by some steps on a batch with the losses (T, K)."""
        for _ in range(STEPS):
            p_w.w.data += self.step(batch, p_w.scores(batch.candidates), expected_loss).reshape(p_w.w.shape)

    @torch.no_grad()
    def step(self, batch: Batch, scores: Tensor, expected_loss: Tensor) -> Tensor:
        """(D,): the change of w that belongs to a step of α; scores and losses (T, K) are those of the batch."""
        c, values, alpha = batch.candidates, scores + expected_loss, self.alpha[batch.rows]
        grid = _on_grid(values)
        (y, h), (y_away, h_away) = best(c, grid), best(c, -grid.masked_fill(alpha <= NEGLIGIBLE, torch.inf))
        gain = (values[h, y] - values[h_away, y_away]).clamp_min(0.0)  # (n,)
        most = alpha[h_away, y_away] if batch.share > 0 else torch.zeros_like(gain)  # a sample of share 0 does not move
        (to, block), (away, block_away) = (self.joint.vectors(c, *one) for one in ((y, h), (y_away, h_away)))
        columns = [one[:, None].double() for one in (block, block_away, gain, most)]
        rows, first = distributed.stack(self.samples.candidates, torch.cat([to.double(), away.double(), *columns], dim=1))
        moved, direction = self._together(rows, to.shape[1])
        moved = moved[first : first + len(h)]
        self._move(batch.rows[h], y, moved)
        self._move(batch.rows[h_away], y_away, -moved)
        return direction

    def _together(self, rows: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """(m,), (D,): how much weight each of the samples of a batch moves, and the change of w.

        Args:
            rows: (m, 2d' + 4) Ψ at where weight goes to and where it comes from, their blocks of w, the gain, and the most that can move.
        """
        to, away, (block, block_away, gain, most) = rows[:, :size], rows[:, size : 2 * size], rows[:, 2 * size :].unbind(dim=1)
        vectors, blocks = torch.cat([away, -to]), torch.cat([block_away, block]).long()
        products = (vectors @ vectors.T).masked_fill(blocks[:, None] != blocks, 0.0)
        m = len(rows)
        gram = products.unflatten(0, (2, m)).unflatten(2, (2, m)).sum(dim=(0, 2))
        moved = torch.from_numpy(box_ascent(*(one.cpu().numpy() for one in (self.weight * gain, self.weight**2 * gram, most)))).to(rows)
        direction = rows.new_zeros(self.joint.size(self.samples.candidates) // size, size)
        direction.index_add_(0, blocks, self.weight * moved.repeat(2)[:, None] * vectors)
        return moved, direction.flatten()

    def _move(self, rows: Tensor, y: Tensor, weight: Tensor) -> None:
        self.alpha[rows, y] = (self.alpha[rows, y] + weight.to(self.alpha)).clamp_min(0.0)

    @torch.no_grad()
    def bounds(self, p_w: Prediction, p_theta: ConditionalModel | None) -> tuple[Bounds, Tensor]:
        """The bounds of (14) at this w under this P_θ, and the rows (n,) of the h* that this w imputes; one pass over the features."""
        sums, rows = torch.zeros(3, dtype=torch.float64), []
        c = self.samples.candidates
        for batch in self.samples.chunks():
            scores = p_w.scores(batch.candidates)
            expected = batch.loss.expected_loss(held_posterior(batch, p_theta))
            parts = (
                batch.slack(scores, expected, batch.start),
                best_value(batch.candidates, expected.masked_fill(scores == -torch.inf, -torch.inf)),
                self.alpha[batch.rows] * expected,
            )
            sums += torch.stack([part.double().sum() for part in parts]).cpu()
            rows.append(batch.rows[batch.impute(scores).nonzero()[:, 0]])
        value, origin, dual = (self.weight * distributed.total(c, sums)).tolist()
        value += sum(half_square(w) for w in p_w.parameters())
        return Bounds(value, origin, dual - half_square(self.w())), torch.cat(rows)

    def w(self) -> Tensor:
        """(D,) in float64: w(α)."""
        c, y = self.samples.candidates, self.samples.y
        weights = -self.alpha.double()
        weights.scatter_add_(1, y[c.sample, None], self.samples.start.double()[:, None])
        rows, classes = weights.nonzero(as_tuple=True)
        return distributed.total(c, self.joint.sum(c, classes, rows, self.weight * weights[rows, classes]))

    def move(self, rows: Tensor, p_w: LinearPrediction) -> bool:
        """Make the rows (n,) h*, move the weight that α had on the old ones there, and set w accordingly; whether any h* moved."""
        there = torch.zeros_like(self.samples.start).index_fill(0, rows, 1.0)
        if distributed.highest(self.samples.candidates, float(not torch.equal(there, self.samples.start))) == 0:
            return False
        c, start, y = self.samples.candidates, self.samples.start, self.samples.y
        own = self.alpha.gather(1, y[c.sample, None])[:, 0].double()
        share = torch.where(start > 0, own / start, torch.inf)  # of a mixture, as much as all its parts have
        weight = -segment_max(-share, c.counts)
        self._put_on_h_star(-weight)
        self.samples.start = there
        self._put_on_h_star(weight)
        self.alpha.clamp_min_(0.0)
        p_w.w.data.copy_(self.w().reshape(p_w.w.shape))
        return True

    def state(self) -> dict[str, Any]:
        """α where it is not zero, and h*, of all ranks, as plain data."""
        c = self.samples.candidates
        alpha, start = (distributed.gather(c, values, "candidates") for values in (self.alpha, self.samples.start))
        where = alpha.flatten().nonzero()[:, 0]
        return {"where": where, "alpha": alpha.flatten()[where], "start": start}

    def load(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        c, device = self.samples.candidates, self.alpha.device
        whole = torch.zeros(distributed.n_candidates(c) * self.alpha.shape[1], dtype=self.alpha.dtype)
        whole[state["where"].cpu()] = state["alpha"].cpu()
        self.alpha = distributed.own(c, whole.reshape(-1, self.alpha.shape[1]), "candidates").to(device)
        self.samples.start = distributed.own(c, state["start"].to(device), "candidates")


@torch.no_grad()
def held_posterior(batch: Batch, p_theta: ConditionalModel | None) -> Tensor:
    """(T,): P_θ(h | x_i, y_i); without P_θ the h* that is held."""
    return batch.start.to(score_dtype(batch.candidates)) if p_theta is None else batch.posterior(p_theta)


def _on_grid(values: Tensor) -> Tensor:
    """Values rounded to a grid far above their rounding error. A step that is best for a sample leaves two (y, h) that tie, and the choice
    between them must not depend on the order of sums, which differs between numbers of ranks.

    >>> _on_grid(torch.tensor([1.0, 1.0 + 1e-15], dtype=torch.float64)).diff()
    tensor([0.], dtype=torch.float64)
    """
    grid = torch.finfo(values.dtype).eps ** (2 / 3)
    return (values / grid).round() * grid


@compiled()
def box_ascent(slopes: Array, gram: Array, most: Array) -> Array:  # pragma: no cover
    """(m,): t in [0, most] that nearly maximises slopes·t − ½ tᵀ gram t.

    >>> box_ascent(np.array([1.0, 1.0, 1.0]), np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), np.array([2.0, 2.0, 0.5]))
    array([1. , 0.5, 0.5])
    """
    t, rest, whole = np.zeros_like(slopes), slopes.copy(), 0.0
    for _ in range(SWEEPS):
        gained = 0.0
        for i in range(len(t)):
            curvature = max(gram[i, i], FLAT)
            step = min(max(t[i] + rest[i] / curvature, 0.0), most[i]) - t[i]
            if step != 0.0:
                gained += step * (rest[i] - 0.5 * step * curvature)
                t[i] += step
                for j in range(len(t)):
                    rest[j] -= step * gram[i, j]
        whole += gained
        if gained <= ENOUGH * whole:
            break
    return t
