"""Which solver works on the w block, by name."""

from typing import Literal

from lvmdc.solvers.cccp import CCCP, LatentBlock
from lvmdc.solvers.eager import EagerCCCP
from lvmdc.solvers.hinge import StructuredHinge
from lvmdc.solvers.n_slack import NSlack
from lvmdc.solvers.one_slack import OneSlack
from lvmdc.solvers.self_paced import SelfPaced
from lvmdc.solvers.truth import Truth

WSolver = Literal["n_slack", "one_slack"]
Rounds = Literal["strict", "eager", "self_paced"]


def latent_block(hinge: StructuredHinge, solver: WSolver, cccp: Rounds, tol: float, truth: Truth, seed: int = 0) -> LatentBlock:
    """The w block (13) with the solver of (14) and the kind of CCCP that were asked for.

    `eager` moves h* after every pass that lowered (13), `strict` solves (14) first, `self_paced` begins with the easy samples.

    >>> from lvmdc.joint import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> type(latent_block(hinge, "n_slack", "eager", 1e-3, Truth(hinge, rows=torch.tensor([0, 1])))).__name__
    'EagerCCCP'
    """
    convex = NSlack(hinge, seed=seed) if solver == "n_slack" else OneSlack(hinge)
    if cccp == "self_paced":
        return SelfPaced(hinge, convex, tol, truth)
    if cccp == "eager":
        if not isinstance(convex, NSlack):
            raise ValueError("cccp must not be 'eager' with solver='one_slack', whose cuts help little with another h*; choose 'strict'")
        return EagerCCCP(hinge, convex, tol, truth)
    return CCCP(hinge, convex, tol, truth)
