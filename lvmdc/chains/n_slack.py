"""The n-slack dual for (14) on chains."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lvmdc.chains.viterbi import plane_scores
from lvmdc.chains.w_block import ChainHinge
from lvmdc.objective import half_square
from lvmdc.solvers.cccp import LAST, EagerCCCP, InexactCCCP, LatentBlock
from lvmdc.solvers.n_slack.dual import NSlack, Pass
from lvmdc.solvers.n_slack.kernels import missing, sweeps
from lvmdc.solvers.w_block import ImputedLatents, Point, Solution

STEPS = 10  # pairwise steps for a sequence at a visit
# The known planes are solved until their gap is this share of what only unknown ones can give, but no further than to this share of
# the gap that is asked for.
SHARE, FLOOR = 0.3, 0.3
MOST_SWEEPS = 30  # rounds over the known planes between two passes
MOST_NEW = 10  # planes of a sequence that a pass adds
PATIENCE = 3  # passes without weight after which a plane is forgotten


class ChainNSlack(NSlack):
    """`NSlack` whose planes are the labelings that Viterbi has found; a pass is one loss-augmented Viterbi for each class.

    Args:
        least: no smaller gap than this is asked for.

    >>> from lvmdc.chains import ChainMap, Chains
    >>> chains = Chains(torch.tensor([[1.0], [-1.0]]), [1, 1])
    >>> hinge = ChainHinge(chains, torch.tensor([0, 1]), ChainMap(1, 1, transitions=False), n_classes=2, C=1.0, class_cost=1.0)
    >>> truth = ImputedLatents(hinge, rows=hinge.number(torch.tensor([[0], [0]])))
    >>> round(ChainNSlack(hinge).solve(torch.zeros(2, 1, 1), truth, hinge.origin(), tol=1e-6).value, 4)
    0.25
    """

    hinge: ChainHinge

    def __init__(self, hinge: ChainHinge, max_iter: int = 1000, seed: int = 0, least: float = 0.0):
        super().__init__(hinge, max_iter, seed)
        self.least = least

    def solve(self, expected_loss: Tensor, latents: ImputedLatents, start: Point, tol: float, share: float = 0.0) -> Solution:
        return super().solve(expected_loss, latents, start, max(tol, self.least), share)

    def rebase(self, expected_loss: Tensor, latents: ImputedLatents) -> None:
        assert latents.rows is not None  # a start of chains is never a mixture
        if self.started:
            assert self.latents.rows is not None
            in_use = [self.planes.row[self.planes.used], latents.rows.cpu().numpy(), self.latents.rows.cpu().numpy()]
            self.hinge.joint.forget_but(np.concatenate(in_use))
        unseen = self.unseen
        super().rebase(expected_loss, latents)
        worst = max(self.hinge.class_cost, float(expected_loss.amax(dim=2).sum(dim=1).max()))
        self.unseen = min(unseen, float(self.total.sum()) * worst)

    def _look_up(self, table: np.ndarray, tensor: Tensor) -> np.ndarray:
        """(n, M): Δ_i(y, h; θ) of every plane; the table is what the states of the sites add to it."""
        p = self.planes
        i, place = p.used.nonzero()
        rows, classes = p.row[i, place], p.cls[i, place]
        h = self.hinge.joint.h(torch.from_numpy(rows)).numpy()  # (P, m)
        own = table[i[:, None], np.arange(h.shape[1]), h].sum(axis=1, dtype=np.float64)  # zero beyond the end
        losses = np.zeros(p.row.shape)
        losses[i, place] = np.where(classes == self.hinge.y.cpu().numpy()[i], own, self.hinge.class_cost)
        return losses

    def advance(self, goal: float, share: float = SHARE) -> Pass:
        """Rounds over the known planes, then one pass at the w they give, which finds new labelings.

        Args:
            goal: the gap that is asked for.
        """
        hinge, p, total = self.hinge, self.planes, self.total
        order = np.random.default_rng([self.seed, self.rounds]).permutation(len(total))
        work = self.w.reshape(p.n_blocks, -1).astype(p.vectors.dtype)
        self.rounds += sweeps(order, p.tables(work, total), STEPS, max(share * self.unseen, FLOOR * goal), MOST_SWEEPS)[0]
        p.rescale(total)
        self.w = p.w(self.latents, total)
        point = hinge.at(torch.from_numpy(self.w).to(hinge.chains.device))
        value, where = self._best(point)
        known = self._plane_values(point)
        augmented, half = float(total @ value.max(axis=1)), half_square(point.w)
        self.unseen = augmented - float(total @ np.where(p.used, known, -np.inf).max(axis=1))
        found = Pass(
            point=point,
            rows=hinge.impute(point.scores),
            value=half + augmented - hinge.C * float(point.w @ self.latents.mean),
            latent_value=half + augmented - float(total @ hinge.truth_score(point.scores).double().cpu().numpy()),
            dual=self.dual,
        )
        mixed = (p.alpha * known).sum(axis=1) / total
        p.drop_idle(PATIENCE)
        p.add(*missing(value, where, mixed, p.row, p.cls, p.count, total, MOST_NEW))
        p.loss[:] = self._look_up(self.losses, self.expected_loss)
        return found

    def _best(self, point: Point) -> tuple[np.ndarray, np.ndarray]:
        """(n, K), (n, K): the greatest w·Ψ + Δ of each class, and the number of the labeling that has it."""
        value, h = self.hinge.augmented(point.scores, self.expected_loss)
        n, classes, m = h.shape
        samples = torch.arange(n, device=h.device).repeat_interleave(classes)
        rows = self.hinge.joint.rows(samples, h.reshape(-1, m))
        return value.double().cpu().numpy(), rows.reshape(n, classes).cpu().numpy()

    def _plane_values(self, point: Point) -> np.ndarray:
        """(n, M): w·Ψ + Δ of every plane, 0 where there is none."""
        p = self.planes
        scores = np.zeros(p.row.shape)
        w = point.w.cpu().numpy().reshape(p.n_blocks, -1).astype(p.vectors.dtype)
        plane_scores(p.vectors, w, p.vec, p.blk, p.count, scores)
        return np.where(p.used, scores + p.loss, 0.0)

    def state(self) -> dict[str, Any]:
        return super().state() | {"labelings": self.hinge.joint.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self.hinge.joint.load_state(state["labelings"])
        super().load_state({name: part for name, part in state.items() if name != "labelings"})


# CCCP on chains.

ChainRounds = Literal["strict", "eager"]
# No w separates a truth of random states from others, so that w = 0 is the best there is. Nothing is gained then, and a gap
# that is to be small beside the gain never would be: this share of C·ε is small enough.
SMALLEST = 0.02


class _AtLeast(LatentBlock):
    def set_tolerance(self, origin: float, value: float) -> None:
        super().set_tolerance(origin, value)
        self.tolerance = max(self.tolerance, SMALLEST * self.tol)


class _Strict(_AtLeast, InexactCCCP):
    pass


class _Eager(_AtLeast, EagerCCCP):
    pass


def chain_block(hinge: ChainHinge, rounds: ChainRounds, tol: float, latents: ImputedLatents, seed: int) -> LatentBlock:
    """The w block (13) of chains; `tol` is C·ε.

    >>> import torch
    >>> from lvmdc.chains import ChainMap, Chains
    >>> hinge = ChainHinge(Chains(torch.tensor([[1.0], [-1.0]]), [1, 1]), torch.tensor([0, 1]), ChainMap(1, 1), 2, 1.0, 1.0)
    >>> block = chain_block(hinge, "strict", 1e-6, ImputedLatents(hinge, rows=hinge.number(torch.tensor([[0], [0]]))), seed=0)
    >>> round(block.run(lambda latents: torch.zeros(2, 1, 1), max_rounds=10).decrease, 3)
    0.75
    """
    solver = ChainNSlack(hinge, seed=seed, least=LAST * SMALLEST * tol)
    return (_Eager if rounds == "eager" else _Strict)(hinge, solver, tol, latents)
