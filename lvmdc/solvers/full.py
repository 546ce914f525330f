"""CCCP as Algorithm 1 has it: every convex problem is solved before h* moves."""

from dataclasses import replace

from torch import Tensor

from lvmdc.solvers.cccp import CCCP, LAST, SMALL
from lvmdc.solvers.one_slack import Solution


class FullCCCP(CCCP):
    """Solves each (14) to the gap that the last one must have.

    (14) has one solution, so that where this ends does not depend on who solves it, nor on the order of the samples, but for the gap.
    `CCCP` is quicker and mostly ends lower: an h* that is given up early was not worth an exact answer.

    >>> from lvmdc.joint import ClassBlocks
    >>> from lvmdc.solvers import NSlack
    >>> from lvmdc.solvers.hinge import StructuredHinge
    >>> from lvmdc.solvers.truth import Truth
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> block = FullCCCP(hinge, NSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(block.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    following = 0.0

    def first_solution(self, expected_loss: Tensor) -> Solution:
        # What the tolerance is shows only once something was gained.
        rough = self.solver.solve(expected_loss, self.truth, self.point, 0.0, LAST * SMALL)
        if rough.met is not None:
            return rough
        self.set_tolerance(self.hinge.value_at_origin(expected_loss), rough.value)
        return replace(self.solver.solve(expected_loss, self.truth, rough.point, LAST * self.tolerance), met=None)
