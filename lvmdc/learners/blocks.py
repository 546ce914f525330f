"""Block coordinate descent: w by CCCP under a fixed posterior, then the posterior under a fixed w."""

from abc import abstractmethod
from typing import Self

import torch

from lvmdc import distributed
from lvmdc.learners.base import LatentLearner
from lvmdc.objective import Objective

MAX_ROUNDS = 100  # CCCP rounds in one outer iteration at most
# After another C both blocks have far to go: w is not led to the end of a posterior that is about to move.
PATH_ROUNDS = 3


class BlockLearner(LatentLearner):
    """An outer iteration is the w block (13), then the posterior block; learning stops when together they gain less than C·ε."""

    over_ranks = True
    _rounds = MAX_ROUNDS

    @abstractmethod
    def _step_posterior(self) -> float:
        """The posterior block; what it gained of its own objective."""

    @abstractmethod
    def _objective(self) -> Objective: ...

    def go_on_from(self, last: Self) -> None:
        super().go_on_from(last)
        self._rounds = PATH_ROUNDS
        self._follow_C(self.C / last.C)  # w stands at what was best for another C, so that the posterior has the more to gain

    def _follow_C(self, growth: float) -> None:
        """The posterior after C grew by a factor, before w did anything: that need not be exact."""
        self._step_posterior()

    def _step(self) -> dict[str, float]:
        t = self._training
        expected_loss = t.expected_loss()
        w_block = t.cccp.run(lambda truth: expected_loss, self._rounds)
        gained = self._step_posterior()
        decrease = w_block.decrease + gained
        if w_block.converged and gained > 0:
            t.cccp.expect(gained)  # what the losses of another posterior let w gain is of the same order
        # A w block that has converged has nothing left to do where the posterior asks for the same losses, as when Δ does not depend on h.
        same = distributed.highest(t.candidates, float(not torch.equal(expected_loss, t.expected_loss()))) == 0
        over = decrease <= t.cccp.tolerance or same
        self.converged_, self.stuck_ = w_block.converged and over, w_block.stuck and over
        row = {**self._objective().terms(), **t.measures()}
        return row | {"decrease": decrease, "w_decrease": w_block.decrease, "posterior_decrease": gained, "gap": w_block.gap}
