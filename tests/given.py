"""Linear distributions whose weights are any tensor, so that a value can be differentiated in it."""

from lvmdc.distributions import LinearPrediction, LogLinear


class GivenW(LinearPrediction):
    """Class blocks with the weights w (K, d)."""

    def __init__(self, w):
        super().__init__(w)
        self.given = w

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates):
        return candidates.features @ self.given.T


class GivenTheta(LogLinear):
    """The same for P_θ, with θ (K, d')."""

    def __init__(self, theta):
        super().__init__(theta)
        self.given = theta

    def parameters(self, recurse=True):
        return iter([self.given])

    def scores(self, candidates, y):
        return (candidates.for_phi().features * self.given[y][candidates.sample]).sum(1)


def recorded(kind):
    """A module of that kind that needs no trainer: it keeps the objective of a step, and does not take it."""

    class Recorded(kind):
        def manual_backward(self, loss):
            self.objective = loss

        def step_optimizers(self):
            pass

    return Recorded
