"""Block-coordinate Frank–Wolfe for (14), with a cache of planes and samples drawn by their gaps.

S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher, Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013;
A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania, S. Lacoste-Julien, Minding the gaps for block Frank–Wolfe optimization of structured
SVMs, ICML 2016.
"""

import numpy as np
import torch
from torch import Tensor

from lvmdc.solvers.n_slack.dual import SHARE, STEPS, NSlack, Pass
from lvmdc.solvers.n_slack.kernels import class_maxima, missing, visit
from lvmdc.solvers.n_slack.planes import MIXTURE
from lvmdc.solvers.w_block import ImputedLatents, StructuredHinge

# The oracle is not called for a sample whose known planes have this share of the gap that it last had, and this share of the mean gap.
# The paper has a quarter, for oracles that cost more; a twentieth took a third of the time off on the mammals.
LOCAL, MEAN = 0.05, 0.01
FALLEN = 0.3  # an exact pass is due when the gaps that were met add up to this share of what they were at the last one,
MOST_ORACLE, MOST_VISITS = 3.0, 30.0  # or when this many passes' worth of candidates was scored, or every sample visited so often


class FrankWolfe(NSlack):
    """The dual of `NSlack`, a block of samples at a time: the known planes first, the oracle for samples that they do not help.

        gap_i = Σ_p (s_ip − α_ip) (l_ip + w·Ψ_ip),  s_i all of C/n on argmax_p l_ip + w·Ψ_ip;  Σ_i gap_i is the duality gap.

    A visit moves weight of one sample from the worst plane in use to the best, up to ten times. The oracle scores the
    candidates of its samples alone, so that w moves many times in what would be one pass. Samples are drawn in proportion to the gaps
    they last had: those that are solved cost nothing. An exact pass now and then measures the duality gap, and all gaps.

    Args:
        max_iter: the most exact passes in one call.
        seed: of the samples that are drawn.
        block: samples per call of the oracle.

    >>> from lvmdc import Candidates, ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> latents = ImputedLatents(hinge, rows=torch.tensor([0, 1]))
    >>> round(FrankWolfe(hinge).solve(1 - torch.eye(2), latents, hinge.origin(), tol=1e-6).value, 4)
    0.5
    """

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, seed: int = 0, block: int = 16):
        super().__init__(hinge, max_iter, seed)
        if block < 1:
            raise ValueError(f"block must be at least 1, but it is {block}")
        self.block = block

    def rebase(self, expected_loss: Tensor, latents: ImputedLatents) -> None:
        super().rebase(expected_loss, latents)
        self.gaps = np.full(len(self._counts), np.inf)  # not known yet

    def advance(self, goal: float, share: float = SHARE) -> Pass:
        """Visits to samples, then one exact pass at the w they lead to. How long visits pay shows in the gaps they meet, so that neither
        `goal` nor `share` is used."""
        p, n = self.planes, len(self._counts)
        rng = np.random.default_rng([self.seed, self.rounds])
        self.rounds += 1
        work = self.w.reshape(p.n_blocks, -1).astype(p.gram.dtype)
        if np.isinf(self.gaps).any():  # nothing is known of this (14) yet: each sample in turn, by the known planes if they help at all
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
        return found

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """A block of different samples, each draw in proportion to the gaps."""
        edges = np.cumsum(self.gaps)
        return np.unique(np.searchsorted(edges, edges[-1] * rng.random(self.block), side="right").clip(max=len(edges) - 1))

    def _visit(self, chosen: np.ndarray, work: np.ndarray, enough: np.ndarray) -> float:
        """Steps for the samples `chosen`, with the oracle for those whose known planes do not have a gap of `enough`; the share of a pass
        that it scored."""
        left, level = visit(chosen, enough, self.gaps, self.planes.tables(work, self.total), STEPS)
        if not left.any():
            return 0.0
        order = np.argsort(chosen[left])
        asked, level = chosen[left][order], level[left][order]
        scored = self._ask(asked, level, work)
        visit(asked, np.full(len(asked), -np.inf), self.gaps, self.planes.tables(work, self.total), STEPS)
        return scored

    def _ask(self, samples: np.ndarray, level: np.ndarray, work: np.ndarray) -> float:
        """The oracle: the best (y, h) of each of the samples at the current w, as a plane more where it is not known."""
        hinge, p = self.hinge, self.planes
        part = hinge.candidates.subset(torch.from_numpy(samples))
        scores = hinge.joint.scores(part, torch.from_numpy(work).flatten().to(part.device)).detach().cpu().numpy()
        share = part.n_candidates / hinge.candidates.n_candidates
        hinge.passes += share
        counts = self._counts[samples]
        starts = np.cumsum(counts) - counts
        shift = self._starts[samples] - starts
        losses = self.losses[np.arange(len(scores)) + np.repeat(shift, counts)]
        value, where = class_maxima(scores, losses, starts, counts)
        where += shift[:, None]
        new, rows, classes = missing(value, where, level, p.row[samples], p.cls[samples], p.count[samples], self.total[samples], 1)
        p.add_fitting(samples[new], rows, classes)
        known = p.row[samples] != MIXTURE  # a mixture is never new, and keeps its loss
        p.loss[samples] = np.where(known, self.losses[np.maximum(p.row[samples], 0), p.cls[samples]], p.loss[samples])
        return share
