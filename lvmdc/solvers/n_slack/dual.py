"""The n-slack dual for (14): every sample keeps its own planes, and pairwise steps move weight between them.

The dual of the n-slack structural SVM is that of T. Joachims, T. Finley, C.-N. Yu, Cutting-plane training of structural SVMs, Machine
Learning 77, 2009; its block-coordinate ascent goes back to S. Lacoste-Julien et al., Block-coordinate Frank–Wolfe optimization for
structural SVMs, ICML 2013, and the pairwise steps over a cache of planes to A. Osokin et al., Minding the gaps for block Frank–Wolfe
optimization of structured SVMs, ICML 2016.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmdc import distributed
from lvmdc.inference import TIE
from lvmdc.solvers.n_slack import kernels
from lvmdc.solvers.n_slack.planes import MIXTURE, Planes
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, Point, Progress, Solution, StructuredHinge

# These, as the settings in cccp.py and self_paced.py, were chosen by objective and cost on the mammals, with the published figures known.
STEPS = 10  # pairwise steps for a sample at a visit
# The known planes are solved until their gap is this share of what only unknown ones can give, beyond which it would be in vain, but no
# further than to this share of the gap that is asked for.
SHARE, FLOOR = 1.0, 0.3
MOST_SWEEPS = 30  # rounds over the known planes between two passes
EXCHANGE = kernels.REST  # rounds that a rank makes before the ranks join their steps
MOST_NEW = 10  # planes of a sample that a pass adds
PATIENCE = 2  # passes without weight after which a plane is dropped


@dataclass(frozen=True)
class Pass:
    """What one pass over the features found: the point, its h* as packed rows (n,), (14) and (13), and the dual, a lower bound of (14)."""

    point: Point
    rows: Tensor
    value: float
    latent_value: float
    dual: float


class NSlack(ConvexSolver):
    """max_α Σ α_ip l_ip − ½‖w‖² with w = Σ_i (C/n Ψ(x_i, y_i, h*_i) − Σ_p α_ip Ψ_ip), α ≥ 0, Σ_p α_ip = C/n.

    A plane p is a (y, h) of sample i, l_ip its expected loss.
    Planes and weights outlive a call, so that the next (14), with another h* or another θ, starts nearly solved. Over several ranks each
    has the planes and weights of its own samples, and all have the same w.

    Args:
        max_iter: the most passes in one call.
        seed: of the order in which samples are visited.

    >>> from lvmdc import Candidates
    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> latents = ImputedLatents(hinge, rows=torch.tensor([0, 1]))
    >>> round(NSlack(hinge).solve(loss, latents, hinge.origin(), tol=1e-6).value, 4)
    0.5
    """

    def __init__(self, hinge: StructuredHinge, max_iter: int = 1000, seed: int = 0):
        super().__init__(hinge, max_iter)
        self.seed = seed
        self._planes: Planes | None = None
        self.latents: ImputedLatents
        self.mixture: ImputedLatents | None = None  # the start, where it is a mixture
        self.rounds = 0  # over the known planes, so far
        self.unseen = np.inf  # what of the gap the last pass met by planes that were not known
        self.gaps = np.full(len(hinge.y), np.inf)  # that of each sample, as the last pass met it
        self._asked: tuple[object, ...] | None = None  # which (14) the tables belong to
        self._C = hinge.C  # that the weights belong to
        c = hinge.candidates
        self._starts, self._counts, self._known = (t.cpu().numpy() for t in (c.offsets, c.counts, hinge.known))
        self._y = hinge.y_on_host

    @property
    def started(self) -> bool:
        """Whether a (14) was set up before."""
        return self._planes is not None

    @property
    def planes(self) -> Planes:
        """The planes of every sample, once a (14) was set up."""
        assert self._planes is not None
        return self._planes

    # ---- one (14) ------------------------------------------------------------------------------------------------

    def solve(self, expected_loss: Tensor, latents: ImputedLatents, start: Point, tol: float, share: float = 0.0) -> Solution:
        self.rebase(expected_loss, latents)
        progress = Progress(self.hinge, expected_loss, latents, start)
        for _ in range(self.max_iter):
            found = self.advance(tol)
            progress.bound(found.dual)
            progress.take(found.point, found.value)
            progress.look(found.point, found.latent_value)
            if progress.enough(tol, share):
                break
        return progress.solution()

    def gap(self, expected_loss: Tensor, latents: ImputedLatents, point: Point) -> float:
        self.rebase(expected_loss, latents)
        return self.hinge.convex_value(point, expected_loss, latents.mean) - self.dual

    def rebase(self, expected_loss: Tensor, latents: ImputedLatents) -> None:
        """Set up another (14): the weights of the old h* go to the new one, all losses are looked up."""
        asked = expected_loss, latents, self.hinge.C, self.hinge.weight
        if self._asked is not None and all(a is b for a, b in zip(asked, self._asked, strict=True)):
            return
        same_losses = self._asked is not None and self._asked[0] is expected_loss
        self._asked = asked
        if self._planes is None:
            self._planes = self._first_planes(latents)
        elif latents.rows is not None:
            old, new = self.latents.rows_on_host, latents.rows_on_host
            assert new is not None
            self._planes.move(np.full(len(self._counts), MIXTURE) if old is None else old, new)
        if not same_losses:
            self.losses = expected_loss.detach().cpu().numpy()
        self.latents, self.expected_loss = latents, expected_loss
        self.total = self.hinge.C / distributed.n_samples(self.hinge.candidates) * self.hinge.weights_on_host
        p = self._planes
        p.loss[:] = self._look_up(self.losses, expected_loss)
        p.rescale(self.total)
        self.w = p.w(latents, self.total)
        if self.hinge.C > self._C:
            self._shorten(self._C / self.hinge.C)
        self._C = self.hinge.C
        worst = distributed.highest(self.hinge.candidates, float(self.losses.max()))
        self.unseen = min(self.unseen, float(self._summed(self.total.sum())[0]) * worst)

    def _shorten(self, least: float) -> None:
        """After C grew: s·w with the best s in [least, 1]. A margin that was hard enough before need not grow with C.

        The rest of each sample's weight goes to h*, of loss l_i*: the dual is s Σ α_ip l_ip + (1 − s) Σ C/n l_i* − ½ s² ‖w‖².
        """
        p, packed, samples = self.planes, self.latents.rows_on_host, np.arange(len(self._counts))
        if packed is None:
            return
        gain = self._summed((p.alpha * p.loss)[p.used].sum() - self.total @ self.losses[packed, self._y])
        best = float(gain[0]) / max(float(self.w @ self.w), 1e-300)
        if best >= 1:
            return
        absent = np.flatnonzero(p.find(packed, self._y) < 0)
        p.add(absent, packed[absent], self._y[absent])
        p.loss[:] = self._look_up(self.losses, self.expected_loss)
        p.alpha *= max(best, least)
        p.alpha[samples, p.find(packed, self._y)] += self.total - p.alpha.sum(axis=1)
        self.w = p.w(self.latents, self.total)

    @property
    def dual(self) -> float:
        """Σ α_ip l_ip − ½‖w‖² of the current weights, a lower bound of (14)."""
        p = self.planes
        return float(self._summed((p.alpha * p.loss)[p.used].sum())[0]) - 0.5 * float(self.w @ self.w)

    def _summed(self, *values: float | np.ndarray) -> np.ndarray:
        """Numbers, or vectors one after the other, summed over the ranks."""
        local = torch.from_numpy(np.concatenate([np.atleast_1d(value) for value in values]).astype(np.float64))
        return distributed.total(self.hinge.candidates, local).numpy()

    def _first_planes(self, latents: ImputedLatents) -> Planes:
        """h* of each sample, and the same h under every other class: known before any pass."""
        planes, hinge, imputed = Planes(self.hinge), self.hinge, latents.rows_on_host
        n, y = len(self._counts), self._y
        if latents.rows is None or imputed is None:
            self.mixture = latents
            planes.add_mixture(np.arange(n), latents)
            return planes
        own_first = np.argsort(np.arange(hinge.n_classes) != y[:, None], axis=1, kind="stable")[:, : MOST_NEW + 1]
        rows = np.broadcast_to(imputed[:, None], own_first.shape)
        exists = hinge.has(latents.rows).cpu().numpy()[np.arange(n)[:, None], own_first]
        planes.add(exists.nonzero()[0], rows[exists], own_first[exists])
        return planes

    def _look_up(self, table: np.ndarray, tensor: Tensor) -> np.ndarray:
        """(n, M): the value of every plane in a table (T, K), also given as a tensor; of a mixture, its mean."""
        p = self.planes
        values = table[np.maximum(p.row, 0), p.cls].astype(np.float64)
        mixture = p.used & (p.row == MIXTURE)
        if mixture.any():
            assert self.mixture is not None
            values[mixture] = self.mixture.of(tensor).double().cpu().numpy()[mixture.nonzero()[0]]
        return values

    # ---- one pass ------------------------------------------------------------------------------------------------

    def advance(self, goal: float, share: float = SHARE) -> Pass:
        """Rounds over the known planes, then one pass over the features at the w they give, which finds new planes.

        Args:
            goal: the gap that is asked for.
            share: to which share of what only unknown planes can give the known ones are solved first.
        """
        target = max(share * self.unseen, FLOOR * goal)
        if self.hinge.candidates.shard is None:
            self.rounds += self._sweep(self._work(), target, MOST_SWEEPS)[0]
        else:
            self._sweep_over_ranks(target)
        return self.examine()

    def _work(self) -> np.ndarray:
        """A copy of w as its blocks, in the precision of the compiled loops."""
        return self.w.reshape(self.planes.n_blocks, -1).astype(self.planes.gram.dtype)

    def _sweep(self, work: np.ndarray, target: float, rounds: int) -> tuple[int, float]:
        """Rounds over the known planes of this rank, which move its weights, and w in `work`; how many, and the gap that is left."""
        order = np.random.default_rng([self.seed, self.rounds]).permutation(len(self._counts))
        return kernels.sweeps(order, self.planes.tables(work, self.total), STEPS, target, rounds)

    def _sweep_over_ranks(self, target: float) -> None:
        """Rounds over the known planes of all ranks at once. A rank does not see the steps of the others, so that the sum of all steps may
        be too long: the ranks go the share of it at which the dual, a quadratic on the way, is highest. It never falls."""
        p, enough = self.planes, target * len(self._counts) / distributed.n_samples(self.hinge.candidates)
        for _ in range(0, MOST_SWEEPS, EXCHANGE):
            before, work = p.alpha.copy(), self._work()
            start = work.copy()
            gap = self._sweep(work, enough, EXCHANGE)[1]
            self.rounds += EXCHANGE
            change = p.alpha - before
            *moved, gain, gap = self._summed((work - start).ravel(), (change * p.loss)[p.used].sum(), gap)
            along = np.array(moved)
            share = (gain - self.w @ along) / max(along @ along, 1e-300)
            share = min(max(share, 0.0), 1.0)
            p.alpha[:] = before + share * change
            self.w = self.w + share * along
            if gap <= target or share == 0.0:
                break

    def examine(self) -> Pass:
        """One pass over the features at the w that the weights give, which finds its exact gap and new planes."""
        hinge, p, star = self.hinge, self.planes, self.latents.rows_on_host
        p.rescale(self.total)
        w = self.w = p.w(self.latents, self.total)
        point = hinge.at(torch.from_numpy(w).to(hinge.candidates.device))
        scores = point.scores.detach().cpu().numpy()
        value, where = kernels.class_maxima(scores, self.losses, self._starts, self._counts)
        planes = np.where(p.used, self._look_up(scores, point.scores) + p.loss, 0.0)
        mixed, half = (p.alpha * planes).sum(axis=1), 0.5 * float(w @ w)
        self.gaps = self.total * value.max(axis=1) - mixed
        rows, own = kernels.own_maxima(scores, self._y, self._known, self._starts, self._counts, TIE)
        known = np.where(p.used, planes, -np.inf).max(axis=1)
        at_latents = self.latents.of(point.scores).double().cpu().numpy() if star is None else scores[star, self._y].astype(np.float64)
        each = value.max(axis=1), np.where(self.total > 0, known, 0.0), at_latents, own
        augmented, seen, truth, highest = (float(one) for one in self._summed(*(self.total @ one for one in each)))
        self.unseen = augmented - seen  # what only the new planes can give
        where_best = torch.from_numpy(rows).to(hinge.y.device)
        found = Pass(point, where_best, half + augmented - truth, half + augmented - highest, self.dual)
        p.drop_idle(PATIENCE)
        level = mixed / np.where(self.total > 0, self.total, 1.0)
        p.add_fitting(*kernels.missing(value, where, level, p.row, p.cls, p.count, self.total, MOST_NEW))
        p.loss[:] = self._look_up(self.losses, self.expected_loss)
        return found  # of the weights before new planes came, which have none

    # ---- saving --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        if self._planes is None:
            return {}
        c, mixture, truth = self.hinge.candidates, None, self.latents.rows
        if self.mixture is not None:
            mixture = distributed.gather(c, self.mixture.mixture, "candidates")
        return {
            "planes": self._planes.state(),
            "mixture": mixture,
            "truth": None if truth is None else distributed.gather(c, truth + distributed.first_row(c), "samples"),
            "rounds": self.rounds,
            "unseen": self.unseen,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        if not state:
            return
        hinge, c, device = self.hinge, self.hinge.candidates, self.hinge.y.device
        if state["mixture"] is not None:
            self.mixture = ImputedLatents(hinge, distributed.own(c, state["mixture"].to(device), "candidates"))
        if state["truth"] is None:
            assert self.mixture is not None
            self.latents = self.mixture
        else:
            self.latents = ImputedLatents(hinge, rows=distributed.own(c, state["truth"].to(device), "samples") - distributed.first_row(c))
        self._planes = Planes(hinge)
        self._planes.load_state(state["planes"], self.mixture)
        self.rounds, self.unseen = state["rounds"], state["unseen"]
        self._C = hinge.C
