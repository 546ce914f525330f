"""Which solver works on the w block, by name."""

from collections.abc import Callable
from typing import Literal

from lvmdc.solvers.cccp import CCCP, ConvexSolver, EagerCCCP, FullCCCP, LatentBlock
from lvmdc.solvers.frank_wolfe import FrankWolfe
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.one_slack import OneSlack
from lvmdc.solvers.pegasos import Pegasos
from lvmdc.solvers.self_paced import SelfPaced
from lvmdc.solvers.w_block import StructuredHinge, Truth

WSolver = Literal["n_slack", "one_slack", "frank_wolfe", "pegasos"]
Rounds = Literal["strict", "full", "eager", "self_paced"]
NO_PLANES = {"one_slack": "whose cuts help little with another h*", "pegasos": "which begins anew with another h*"}


def latent_block(hinge: StructuredHinge, solver: WSolver, cccp: Rounds, tol: float, truth: Truth, seed: int = 0) -> LatentBlock:
    """The w block (13) with the solver of (14) and the kind of CCCP that were asked for.

    `eager` moves h* after every pass that lowered (13), `strict` solves (14) first, as exactly as h* still
    moves, `full` to the end, `self_paced` begins with the easy samples.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> type(latent_block(hinge, "n_slack", "eager", 1e-3, Truth(hinge, rows=torch.tensor([0, 1])))).__name__
    'EagerCCCP'
    """
    convex = convex_solver(hinge, solver, seed)
    if cccp == "self_paced":
        return SelfPaced(hinge, convex, tol, truth)
    if cccp == "eager":
        if not isinstance(convex, NSlack):
            raise ValueError(f"cccp must not be 'eager' with solver={solver!r}, {NO_PLANES[solver]}; choose 'strict', or solver='n_slack'")
        return EagerCCCP(hinge, convex, tol, truth)
    return (FullCCCP if cccp == "full" else CCCP)(hinge, convex, tol, truth)


def convex_solver(hinge: StructuredHinge, solver: WSolver, seed: int = 0) -> ConvexSolver:
    """The solver of (14) of that name.

    >>> from lvmdc.feature_maps import ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> type(convex_solver(hinge, "frank_wolfe")).__name__
    'FrankWolfe'
    """
    if solver == "one_slack":
        return OneSlack(hinge)
    kinds: dict[str, Callable[..., ConvexSolver]] = {"n_slack": NSlack, "frank_wolfe": FrankWolfe, "pegasos": Pegasos}
    return kinds[solver](hinge, seed=seed)
