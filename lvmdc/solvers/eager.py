"""CCCP that does not wait for (14): h* moves after every pass that lowered (13)."""

from lvmdc.solvers.cccp import LatentBlock, Losses, Round
from lvmdc.solvers.n_slack import NSlack
from lvmdc.solvers.truth import Truth

ROUGH = 2.0  # h* is about to move: the known planes are solved to twice what only unknown ones can give


class EagerCCCP(LatentBlock):
    """Takes the h* of a w as soon as (13) fell by the tolerance there, and solves (14) to its gap only when it no longer does.

        h*_i ← argmax_h w_t·Ψ(x_i, y_i, h) after pass t, if (13) at w_t is below what it was when h* last moved, by the tolerance.

    It ends as Algorithm 1 does, with an (14) solved to its gap that lowers (13) by less than the tolerance. While h* still moves an
    exact answer would be an answer to the wrong question: this needs a third of the passes, and mostly ends lower.

    >>> from lvmdc.joint import ClassBlocks
    >>> from lvmdc.solvers.hinge import StructuredHinge
    >>> hinge = StructuredHinge(Candidates(torch.eye(2), [1, 1]), torch.tensor([0, 1]), ClassBlocks(2), C=1.0)
    >>> loss = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Δ(y, h) of the two candidates under the two classes
    >>> block = EagerCCCP(hinge, NSlack(hinge), tol=1e-6, truth=Truth(hinge, rows=torch.tensor([0, 1])))
    >>> round(block.run(lambda truth: loss, max_rounds=10).decrease, 3)
    0.5
    """

    solver: NSlack

    def run(self, losses: Losses, max_rounds: int) -> Round:
        hinge, solver = self.hinge, self.solver
        expected_loss = losses(self.truth)
        solver.rebase(expected_loss, self.truth)
        origin = hinge.value_at_origin(expected_loss)
        first = value = upper = hinge.value(self.point, expected_loss)  # upper: of the optimum of (14) for the h* that stands
        stood = value  # (13) when h* last moved
        lower, moves, converged = 0.0, 0, False
        for _ in range(solver.max_iter):
            found = solver.advance(self.tolerance, ROUGH)
            lower, upper = max(lower, found.dual), min(upper, found.value)
            truth = Truth(hinge, rows=found.rows)
            asked = losses(truth)
            here = found.latent_value if asked is expected_loss else hinge.value(found.point, asked)
            self.set_tolerance(origin, min(value, here))
            if here < value:
                value, self.point, self.truth = here, found.point, truth
                if value < stood - self.tolerance:
                    moves, stood = moves + 1, value
                    expected_loss = asked
                    solver.rebase(expected_loss, truth)
                    lower, upper = 0.0, value
                    if moves == max_rounds:
                        break
                    continue
            if upper - lower <= self.tolerance:
                converged = self.truth.differs(solver.truth) == 0
                if converged:
                    break
                expected_loss = losses(self.truth)  # the best w has another h*, if it is only a little better: on with that
                solver.rebase(expected_loss, self.truth)
                stood, lower, upper = value, 0.0, value
        return Round(first - value, upper - lower, converged)
