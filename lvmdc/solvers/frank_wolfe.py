"""The inner loop of block-coordinate Frank–Wolfe, compiled; the tables are those of `kernels`."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lvmdc.solvers.n_slack import kernels as maxima
from lvmdc.solvers.n_slack.dual import SHARE, NSlack, Pass
from lvmdc.solvers.n_slack.kernels import FAST, Array, move, pairwise, plane_values
from lvmdc.solvers.n_slack.planes import MIXTURE
from lvmdc.solvers.w_block import Point, StructuredHinge, Truth


@njit(cache=True, fastmath=FAST)
def visit(
    chosen: Array,
    enough: Array,
    gaps: Array,
    vectors: Array,
    w: Array,
    vec: Array,
    blk: Array,
    loss: Array,
    alpha: Array,
    count: Array,
    gram: Array,
    total: Array,
    steps: int,
) -> tuple[Array, Array]:  # pragma: no cover
    """Steps for the samples `chosen`, in place, among the planes that are known of each.

    A sample whose known planes have a gap below its `enough` is left as it is. `gaps` (n,) takes those that were met.
    Which samples were left, and the value of each one's mixture of planes, both in the order of `chosen`.

    Args:
        steps: pairwise steps for a sample; 0: the step of Frank and Wolfe, from the whole mixture towards the best plane.
    """
    value = np.empty(alpha.shape[1], w.dtype)
    change = np.empty(alpha.shape[1])
    left = np.zeros(len(chosen), np.bool_)
    level = np.zeros(len(chosen))
    for j in range(len(chosen)):
        i = chosen[j]
        m = count[i]
        if total[i] <= 0.0:
            gaps[i] = 0.0
            continue
        mixed, most = plane_values(vectors, w, vec[i, :m], blk[i, :m], loss[i], alpha[i], value)
        level[j] = mixed / total[i]
        here = total[i] * most - mixed
        if here < enough[j]:
            left[j] = True
            continue
        gaps[i] = max(here, 0.0)
        change[:m] = 0.0
        if steps > 0:
            pairwise(value[:m], alpha[i], gram[i], change, steps, 0.0)
        else:
            towards(value[:m], alpha[i], gram[i], change, total[i], here)
        move(vectors, w, vec[i, :m], blk[i, :m], change)
    return left, level


@njit(cache=True, fastmath=FAST)
def towards(value: Array, alpha: Array, gram: Array, change: Array, total: float, rise: float) -> None:  # pragma: no cover
    """The step of Frank and Wolfe for one sample: all weights shrink alike for that of the best plane, as far as is best for the dual."""
    best, m = 0, len(value)
    for p in range(m):
        if value[p] > value[best]:
            best = p
    for p in range(m):
        change[p] = -alpha[p]
    change[best] += total
    bend = 0.0
    for p in range(m):
        for q in range(m):
            bend += change[p] * gram[p, q] * change[q]
    share = 0.0  # where there is nothing to gain but rounding
    if rise > 0.0:
        share = 1.0 if bend <= rise else rise / bend
    for p in range(m):
        change[p] *= share
        alpha[p] += change[p]


# Block-coordinate Frank–Wolfe for (14), with a cache of planes and samples drawn by their gaps.
#
# S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher, Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013;
# A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania, S. Lacoste-Julien, Minding the gaps for block Frank–Wolfe optimization of structured
# SVMs, ICML 2016.

Step = Literal["pairwise", "towards"]
STEPS = 10  # pairwise steps for a sample at a visit
# A known plane will do without the oracle if it has this share of the gap that its sample last had, and this share of the mean gap.
# The paper has a quarter, for oracles that cost more; a twentieth took a third of the time off on the mammals.
LOCAL, MEAN = 0.05, 0.01
FALLEN = 0.3  # an exact pass is due when the gaps that were met add up to this share of what they were at the last one,
MOST_ORACLE, MOST_VISITS = 3.0, 30.0  # or when this many passes' worth of candidates was scored, or every sample visited so often


class FrankWolfe(NSlack):
    """The dual of `NSlack`, a block of samples at a time: the known planes first, the oracle for those that they do not help.

        α_i ← α_i + γ (s_i − α_i),  s_i all of C/n on argmax_p l_ip + w·Ψ_ip,  γ by exact line search;
        gap_i = Σ_p (s_ip − α_ip) (l_ip + w·Ψ_ip),  whose sum is the duality gap.

    A visit is such a step in the weights of one sample, or, with pairwise steps, from one of its planes to another. The oracle scores the
    candidates of its samples alone, so that w moves many times in what would be one pass. Samples are drawn in proportion to the gaps
    they last had: those that are solved cost nothing. An exact pass now and then tells the duality gap, and all gaps anew.

    Args:
        max_iter: exact passes in one call at most.
        seed: of the samples that are drawn.
        step: `pairwise` moves weight from the worst plane in use to the best, up to ten times a visit; `towards` from all planes alike,
            as in the paper of 2013: slower, for comparison.
        block: samples that the oracle is asked for at a time.
        average: also look at the average of the w met, later ones counting more, and take it where it is better. Costs a pass
            more for each exact one; worth it with `step='towards'`.

    >>> from lvmdc import Candidates
    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> truth = Truth(hinge, rows=torch.tensor([0, 1]))
    >>> round(FrankWolfe(hinge).solve(loss, truth, hinge.origin(), tol=1e-6).value, 4)
    0.5
    """

    def __init__(
        self,
        hinge: StructuredHinge,
        max_iter: int = 1000,
        seed: int = 0,
        step: Step = "pairwise",
        block: int = 16,
        average: bool = False,
    ):
        super().__init__(hinge, max_iter, seed)
        if step not in get_args(Step):
            raise ValueError(f"step must be one of {', '.join(get_args(Step))}, but it is {step!r}")
        if block < 1:
            raise ValueError(f"block must be at least 1, but it is {block}")
        self.steps, self.block, self.average = STEPS if step == "pairwise" else 0, block, average

    def rebase(self, expected_loss: Tensor, truth: Truth) -> None:
        super().rebase(expected_loss, truth)
        self.gaps = np.full(len(self._counts), np.inf)  # not known yet
        self._average, self._met = np.zeros_like(self.w), 0

    def advance(self, goal: float, share: float = SHARE) -> Pass:
        """Visits to samples, then one exact pass at the w they lead to.

        Args:
            goal: the gap that is asked for.
            share: not used here: how long visits pay shows in the gaps they meet.
        """
        p, n = self.planes, len(self._counts)
        assert p is not None
        rng = np.random.default_rng([self.seed, self.rounds])
        self.rounds += 1
        work = self.w.reshape(p.n_blocks, -1).astype(p.gram.dtype)
        if np.isinf(self.gaps).any():  # nothing is known of this (14) yet: everyone in turn, by the known planes if they help at all
            for chosen in np.split(rng.permutation(n), range(self.block, n, self.block)):
                self._visit(chosen, work, np.full(len(chosen), np.finfo(float).tiny))
        else:
            first, scored, visits = self.gaps.sum(), 0.0, 0
            while self.gaps.sum() > FALLEN * first and scored < MOST_ORACLE and visits < MOST_VISITS * n:
                chosen = self._drawn(rng)
                enough = np.maximum(LOCAL * self.gaps[chosen], MEAN * self.gaps.mean())
                scored += self._visit(chosen, work, enough)
                visits += len(chosen)
        found = self.examine()
        self.gaps = np.maximum(self.gaps, 0.0)
        return self._with_average(found) if self.average else found

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """A block of different samples, each draw in proportion to the gaps."""
        edges = np.cumsum(self.gaps)
        return np.unique(np.searchsorted(edges, edges[-1] * rng.random(self.block), side="right").clip(max=len(edges) - 1))

    def _visit(self, chosen: np.ndarray, work: np.ndarray, enough: np.ndarray) -> float:
        """Steps for the samples `chosen`, with the oracle for those whose known planes do not have a gap of `enough`; how much of a pass
        it scored."""
        p = self.planes
        assert p is not None
        left, level = self._step(chosen, work, enough)
        scored = 0.0
        if left.any():
            asked, order = chosen[left], np.argsort(chosen[left])
            asked, level = asked[order], level[left][order]
            scored = self._ask(asked, level, work)
            self._step(asked, work, np.full(len(asked), -np.inf))
        if self.average:
            self._met += 1
            self._average += 2 / (self._met + 1) * (work.ravel() - self._average)
        return scored

    def _step(self, chosen: np.ndarray, work: np.ndarray, enough: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.planes
        assert p is not None
        tables = (p.vectors, work, p.vec, p.blk, p.loss, p.alpha, p.count, p.gram, self.total)
        return visit(chosen, enough, self.gaps, *tables, self.steps)

    def _ask(self, samples: np.ndarray, level: np.ndarray, work: np.ndarray) -> float:
        """The oracle: the best (y, h) of each of the samples at the w that stands, as a plane more where it is not known."""
        hinge, p = self.hinge, self.planes
        assert p is not None
        part = hinge.candidates.subset(torch.from_numpy(samples))
        scores = hinge.joint.scores(part, torch.from_numpy(work).flatten().to(part.device)).detach().cpu().numpy()
        share = part.n_candidates / hinge.candidates.n_candidates
        hinge.passes += share
        counts = self._counts[samples]
        starts = np.cumsum(counts) - counts
        shift = self._starts[samples] - starts
        losses = self.losses[np.arange(len(scores)) + np.repeat(shift, counts)]
        value, where = maxima.class_maxima(scores, losses, starts, counts)
        where += shift[:, None]
        new, rows, classes = maxima.missing(value, where, level, p.row[samples], p.cls[samples], p.count[samples], self.total[samples], 1)
        p.add_fitting(samples[new], rows, classes)
        known = p.row[samples] != MIXTURE  # the loss of a mixture, which is never new, stands as it is
        p.loss[samples] = np.where(known, self.losses[np.maximum(p.row[samples], 0), p.cls[samples]], p.loss[samples])
        return share

    def _with_average(self, found: Pass) -> Pass:
        """The average of the w met, if (14) is lower there."""
        hinge = self.hinge
        point: Point = hinge.at(torch.from_numpy(self._average).to(hinge.candidates.device))
        value = hinge.convex_value(point, self.expected_loss, self.truth.mean)
        if self._met == 0 or value >= found.value:
            return found
        rows, latent = hinge.impute(point.scores), hinge.value(point, self.expected_loss)
        return replace(found, point=point, rows=rows, value=value, latent_value=latent)
