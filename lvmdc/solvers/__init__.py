"""One block each: four solvers of (14), CCCP for (13), L-BFGS and stochastic subgradients for (16)."""

from lvmdc.solvers.cccp import CCCP, EagerCCCP, FullCCCP, Round
from lvmdc.solvers.choice import Rounds, WSolver, convex_solver, latent_block
from lvmdc.solvers.frank_wolfe import FrankWolfe
from lvmdc.solvers.initial import Init, starting_weights
from lvmdc.solvers.lbfgs import lbfgs
from lvmdc.solvers.log_linear import log_linear_lbfgs
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.one_slack import OneSlack, Solution
from lvmdc.solvers.pegasos import Pegasos
from lvmdc.solvers.soft import SoftProblem
from lvmdc.solvers.ssd import ssd, subgradient
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound, with_known
from lvmdc.solvers.w_block import Point, StructuredHinge, Truth

__all__ = [
    "CCCP",
    "EagerCCCP",
    "FrankWolfe",
    "FullCCCP",
    "Init",
    "NSlack",
    "OneSlack",
    "Pegasos",
    "Point",
    "PosteriorProblem",
    "Round",
    "Rounds",
    "SoftProblem",
    "Solution",
    "StructuredHinge",
    "ThetaBound",
    "Truth",
    "WSolver",
    "convex_solver",
    "latent_block",
    "lbfgs",
    "log_linear_lbfgs",
    "ssd",
    "starting_weights",
    "subgradient",
    "with_known",
]
