"""One factor that keeps features as long as they were, however the network that makes them changes."""

import torch
from torch import Tensor, nn

from lvmdc import distributed

LENGTH = 8.0  # about that of HOG, for which C near 1 is right


class LengthNorm(nn.Module):
    """x ↦ 8 x / √E‖x‖²: features whose root mean square length is 8.

    It is one factor for all windows and not a division by each one's own length, because that length itself tells objects from
    background. In training E‖x‖² is the mean of the batch, of all ranks, with its derivative, so that nothing is gained by longer
    features; otherwise it is what `calibrate` was told, the mean of the training set.

    >>> norm = LengthNorm().eval()
    >>> norm.calibrate(torch.tensor(4.0))
    >>> norm(torch.tensor([[2.0, 0.0]]))
    tensor([[8., 0.]])
    """

    square: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("square", torch.ones(()))

    def calibrate(self, square: Tensor) -> None:
        """Take a mean squared length that was measured."""
        if not bool(square.isfinite()) or not bool(square > 0):
            raise ValueError(
                f"the features of the network must be finite and not all zero, but their mean squared length is {float(square):g}"
            )
        self.square = square.to(self.square)

    def forward(self, x: Tensor) -> Tensor:
        square = distributed.row_mean(x.square().sum(dim=1)) if self.training else self.square.to(x.device)
        return x * (LENGTH / square.clamp(min=torch.finfo(x.dtype).tiny).sqrt())
