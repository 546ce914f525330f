"""The blocks of the algorithm, and solvers for each.

| what | where |
| --- | --- |
| w block: (13), its convex step (14), imputed latents h* | `w_block.StructuredHinge`, `w_block.ImputedLatents` |
| Algorithm 1 | `cccp.CCCP`; variants `cccp.InexactCCCP`, `cccp.EagerCCCP`, `self_paced.SelfPaced` |
| solvers of (14) | `n_slack.dual.NSlack`, `one_slack.OneSlack` |
| θ block: (15), (16) | `theta_block.PosteriorProblem`; solved by `lbfgs.log_linear_lbfgs` or `lbfgs.lbfgs` |
| both blocks of SoftDISC | `soft.SoftProblem` |
| Algorithm 2, its subgradient (17) | `ssd.ssd`, `ssd.subgradient` |
| where learning starts | `initial.starting_weights`, `initial.likelihood_posterior` |
"""

from lvmdc.solvers.cccp import CCCP
from lvmdc.solvers.choice import CCCPKind, WSolver, latent_block
from lvmdc.solvers.initial import Init, starting_weights
from lvmdc.solvers.lbfgs import lbfgs, log_linear_lbfgs
from lvmdc.solvers.n_slack.dual import NSlack
from lvmdc.solvers.one_slack import OneSlack
from lvmdc.solvers.soft import SoftProblem
from lvmdc.solvers.ssd import ssd, subgradient
from lvmdc.solvers.theta_block import PosteriorProblem, ThetaBound, with_known
from lvmdc.solvers.w_block import ImputedLatents, StructuredHinge

__all__ = [
    "CCCP",
    "CCCPKind",
    "ImputedLatents",
    "Init",
    "NSlack",
    "OneSlack",
    "PosteriorProblem",
    "SoftProblem",
    "StructuredHinge",
    "ThetaBound",
    "WSolver",
    "latent_block",
    "lbfgs",
    "log_linear_lbfgs",
    "ssd",
    "starting_weights",
    "subgradient",
    "with_known",
]
