"""Any function as a loss."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from lvmdc.candidates import Latent
from lvmdc.losses.base import Loss


class FunctionLoss(Loss):
    """The user's own Δ(y1, h1, y2, h2) as a function of tensors that broadcast against each other.

    Args:
        function: returns the loss of a prediction (y2, h2) where the truth is (y1, h1), elementwise. y1 and y2 are class indices.
        latent: what the function is given as h1 and h2: `index`, the position among the sample's candidates, `box`, its corners
            with shape (…, 4), or `row`, the packed row, by which it may look up anything it knows of a candidate.

    >>> far = FunctionLoss(lambda y1, h1, y2, h2: ((y1 != y2) | ((h1 - h2).abs() > 1)).float())
    >>> far.expected_loss(Candidates(torch.zeros(3, 1), [3]), [0], torch.tensor([1.0, 0.0, 0.0])).flatten()
    tensor([0., 0., 1.])
    """

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], latent: Literal["index", "box", "row"] = "index"):
        if latent not in ("index", "box", "row"):
            raise ValueError(f"latent must be 'index', 'box' or 'row', but it is {latent!r}")
        self.function, self.latent = function, latent
        self.needs_boxes = latent == "box"

    def delta(self, y1: Tensor, h1: Latent, y2: Tensor, h2: Latent) -> Tensor:
        one, two = getattr(h1, self.latent), getattr(h2, self.latent)
        loss = torch.as_tensor(self.function(y1, one, y2, two), device=y1.device)
        shape = torch.broadcast_shapes(y1.shape, h1.index.shape, y2.shape, h2.index.shape)
        try:
            return loss.to(loss.dtype if loss.is_floating_point() else torch.get_default_dtype()).expand(shape)
        except RuntimeError:
            raise ValueError(
                f"function must return a loss for every element, shape {tuple(shape)}, but it returned shape {tuple(loss.shape)}"
            ) from None

    def __repr__(self) -> str:
        return f"FunctionLoss({getattr(self.function, '__name__', 'function')}, latent={self.latent!r})"
