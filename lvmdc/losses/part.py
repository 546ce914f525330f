"""A loss on a part of a set."""

from dataclasses import replace

from torch import Tensor

from lvmdc.candidates import Candidates, Latent
from lvmdc.losses.base import Loss


class AtRows(Loss):
    """A loss on samples taken out of a set: a Δ that looks candidates up by their packed row must still find them.

    Args:
        rows: (T',) the row in the whole set of each row of the part.

    >>> import torch
    >>> from lvmdc.losses import FunctionLoss
    >>> late = FunctionLoss(lambda y1, h1, y2, h2: ((h1 > 4) != (h2 > 4)).float(), latent="row")
    >>> AtRows(late, torch.tensor([4, 5])).between(Candidates(torch.zeros(2, 1), [2]), [0], [0], [0], [1])
    tensor([1.], dtype=torch.float64)
    """

    def __init__(self, loss: Loss, rows: Tensor):
        self.loss, self.rows = loss, rows
        self.needs_boxes, self.of_label, self.alike_in_classes = loss.needs_boxes, loss.of_label, loss.alike_in_classes

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        return self.loss.delta(y1, self._in_set(h1), y2, self._in_set(h2))

    def class_cost(self, y1: Tensor, y2: Tensor) -> Tensor | None:
        return self.loss.class_cost(y1, y2)

    def within_class(self, candidates: Candidates, p: Tensor) -> Tensor | None:
        return self.loss.within_class(candidates, p)

    def _in_set(self, h: Latent) -> Latent:
        return h if h.row is None else replace(h, row=self.rows[h.row])
