"""Which solver of (14) and which kind of CCCP work on the w block, by name."""

import warnings
from collections.abc import Callable
from typing import Literal, cast

from lvmdc.solvers.cccp import CCCP, EagerCCCP, InexactCCCP, LatentBlock
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.one_slack import OneSlack
from lvmdc.solvers.self_paced import SelfPaced
from lvmdc.solvers.w_block import ConvexSolver, ImputedLatents, StructuredHinge

WSolver = Literal["n_slack", "one_slack"]
CCCPKind = Literal["exact", "inexact", "eager", "self_paced"]
VERSION_0_1 = {"full": "exact", "strict": "inexact"}


def current_cccp(name: str, warn: bool = False) -> CCCPKind:
    """Today's name of a kind of CCCP; those of version 0.1 are accepted for one release.

    >>> current_cccp("full"), current_cccp("eager")
    ('exact', 'eager')
    """
    current = VERSION_0_1.get(name, name)
    if warn and current != name:
        warnings.warn(f"cccp={name!r} is now cccp={current!r}; the old name will be removed", FutureWarning, stacklevel=4)
    return cast(CCCPKind, current)


def latent_block(
    hinge: StructuredHinge, solver: WSolver, cccp: CCCPKind, tol: float, latents: ImputedLatents, seed: int = 0
) -> LatentBlock:
    """The w block (13) with the solver of (14) and the kind of CCCP of these names.

    `exact` solves (14) to its tolerance before h* moves (Algorithm 1), `inexact` only as exactly as h* still moves, `eager` moves h* after
    every pass that lowered (13), `self_paced` begins with the easy samples.

    >>> from lvmdc import Candidates, ClassBlocks
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> type(latent_block(hinge, "n_slack", "eager", 1e-3, ImputedLatents(hinge, rows=torch.tensor([0, 1])))).__name__
    'EagerCCCP'
    """
    convex, kind = convex_solver(hinge, solver, seed), current_cccp(cccp)
    if kind == "eager" and not isinstance(convex, NSlack):
        raise ValueError("cccp='eager' needs solver='n_slack', since cuts of one_slack help little with another h*, but it is 'one_slack'")
    blocks: dict[str, Callable[..., LatentBlock]] = {"exact": CCCP, "inexact": InexactCCCP, "eager": EagerCCCP, "self_paced": SelfPaced}
    return blocks[kind](hinge, convex, tol, latents)


def convex_solver(hinge: StructuredHinge, solver: WSolver, seed: int = 0) -> ConvexSolver:
    """The solver of (14) of that name."""
    return OneSlack(hinge) if solver == "one_slack" else NSlack(hinge, seed=seed)
