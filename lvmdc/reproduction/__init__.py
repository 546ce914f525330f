"""The experiments of section 6 of the paper: every method × C × fold × loss, then figures and tables with the published numbers."""

from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Division, Method, Protocol, Run, plan_runs
from lvmdc.reproduction.results import PairedTest, best_on_test, chosen_by_validation, curve, paired_test, runs_frame
from lvmdc.reproduction.runner import Store, do_runs, execute

__all__ = [
    "Division",
    "Method",
    "PairedTest",
    "Problem",
    "Protocol",
    "Run",
    "Store",
    "best_on_test",
    "chosen_by_validation",
    "curve",
    "do_runs",
    "execute",
    "paired_test",
    "plan_runs",
    "runs_frame",
]
