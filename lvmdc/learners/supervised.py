"""The fully supervised structural SVM: h is known for every sample."""

from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates
from lvmdc.learners.lsvm import LSVM


class Supervised(LSVM):
    """½‖w‖² + C/n Σ_i max_{y,h} [w·Ψ(x_i,y,h) + Δ(y_i,h_i,y,h)] − w·Ψ(x_i,y_i,h_i): convex, the bound that weak supervision is measured by.

    >>> import torch
    >>> x = torch.tensor([[3.0, 0.0], [0.0, 0.1], [0.0, 3.0], [0.1, 0.0]])
    >>> model = Supervised(C=10.0).fit(Candidates(x, [2, 2]), [0, 1], h=[0, 0])
    >>> model.predict(Candidates(x, [2, 2]))
    (tensor([0, 1]), tensor([0, 0]))
    """

    def fit(
        self,
        candidates: Candidates,
        y: ArrayLike,
        h: ArrayLike | None = None,
        h_init: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> "Supervised":
        """Learn from samples whose outputs y (n,) and latent variables h (n,) are known; a prior of h then changes nothing."""
        super().fit(candidates, y, h, h_init, prior)
        return self

    def _known(self, known: Tensor) -> Tensor:
        if bool((known < 0).any()):
            i = int((known < 0).nonzero()[0])
            raise ValueError(f"Supervised needs h= with the candidate of every sample, but that of sample {i} is unknown")
        return known
