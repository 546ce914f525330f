"""Section 6 of the paper, whole: every method × C × fold × loss, then its figures and tables beside the published numbers."""

from lvmdc.reproduction.plan import plan_runs
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Division, Method, Protocol, Run
from lvmdc.reproduction.runner import do_runs, execute
from lvmdc.reproduction.selection import Choice, best_on_test, chosen_by_validation, curve
from lvmdc.reproduction.store import Store
from lvmdc.reproduction.summary import PairedTest, paired_test

__all__ = [
    "Choice",
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
]
