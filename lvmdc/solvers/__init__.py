"""One block each: the cutting plane for (14), CCCP for (13), L-BFGS and stochastic subgradients for (16)."""

from lvmdc.solvers.cccp import CCCP, Round
from lvmdc.solvers.hinge import Point, StructuredHinge
from lvmdc.solvers.lbfgs import lbfgs
from lvmdc.solvers.one_slack import OneSlack, Solution
from lvmdc.solvers.posterior import PosteriorProblem, ThetaBound, with_known
from lvmdc.solvers.ssd import ssd, subgradient
from lvmdc.solvers.start import Init, starting_weights

__all__ = [
    "CCCP",
    "Init",
    "OneSlack",
    "Point",
    "PosteriorProblem",
    "Round",
    "Solution",
    "StructuredHinge",
    "ThetaBound",
    "lbfgs",
    "ssd",
    "starting_weights",
    "subgradient",
    "with_known",
]
