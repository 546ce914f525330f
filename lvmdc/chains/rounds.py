"""CCCP on chains."""

from typing import Literal

from lvmdc.chains.hinge import ChainHinge
from lvmdc.chains.n_slack import ChainNSlack
from lvmdc.solvers.cccp import CCCP, LAST, LatentBlock
from lvmdc.solvers.eager import EagerCCCP
from lvmdc.solvers.truth import Truth

ChainRounds = Literal["strict", "eager"]
# A truth of random states cannot be told from others by any w, so that w = 0 is the best there is. Nothing is gained then, and a gap
# that is to be small beside the gain never would be: this share of C·ε is small enough.
SMALLEST = 0.02


class _AtLeast(LatentBlock):
    def set_tolerance(self, origin: float, value: float) -> None:
        super().set_tolerance(origin, value)
        self.tolerance = max(self.tolerance, SMALLEST * self.tol)


class _Strict(_AtLeast, CCCP):
    pass


class _Eager(_AtLeast, EagerCCCP):
    pass


def chain_block(hinge: ChainHinge, rounds: ChainRounds, tol: float, truth: Truth, seed: int) -> LatentBlock:
    """The w block (13) of chains; `tol` is C·ε.

    >>> import torch
    >>> from lvmdc.chains import ChainMap, Chains
    >>> hinge = ChainHinge(Chains(torch.tensor([[1.0], [-1.0]]), [1, 1]), torch.tensor([0, 1]), ChainMap(1, 1), 2, 1.0, 1.0)
    >>> block = chain_block(hinge, "strict", 1e-6, Truth(hinge, rows=hinge.number(torch.tensor([[0], [0]]))), seed=0)
    >>> round(block.run(lambda truth: torch.zeros(2, 1, 1), max_rounds=10).decrease, 3)
    0.75
    """
    solver = ChainNSlack(hinge, seed=seed, least=LAST * SMALLEST * tol)
    return (_Eager if rounds == "eager" else _Strict)(hinge, solver, tol, truth)
