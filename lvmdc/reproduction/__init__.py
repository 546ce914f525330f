"""Section 6 of the paper, whole: every method × C × fold × loss, then its figures and tables beside the published numbers."""

from lvmdc.reproduction.choice import Choice, best_on_test, chosen_by_validation, curve
from lvmdc.reproduction.division import Division
from lvmdc.reproduction.execute import execute
from lvmdc.reproduction.paired import PairedTest, paired_test
from lvmdc.reproduction.plan import plan_runs
from lvmdc.reproduction.pool import do_runs
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.protocol import Method, Protocol
from lvmdc.reproduction.run import Run
from lvmdc.reproduction.store import Store

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
