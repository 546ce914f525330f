"""Values of the latent variable, as losses see them."""

from __future__ import annotations

from dataclasses import dataclass

import torch  # noqa: F401  for the example below
from torch import Tensor


@dataclass(frozen=True)
class Latent:
    """Values of h: what a loss Δ(y1, h1, y2, h2) sees of its latent arguments. Fields share their leading shape.

    `index` is the position among the sample's own candidates, `box` its corners (x1, y1, x2, y2) or None, `row` the
    packed row, by which a loss of one's own may look up anything it knows about a candidate.

    >>> h = Latent(index=torch.tensor([0, 3]), box=None)
    >>> h.unsqueeze(1).index.shape
    torch.Size([2, 1])
    """

    index: Tensor
    box: Tensor | None = None
    row: Tensor | None = None

    def unsqueeze(self, dim: int) -> Latent:
        """A new axis of length one among the leading ones, for broadcasting; `dim` counts from the front."""
        box = None if self.box is None else self.box.unsqueeze(dim)
        row = None if self.row is None else self.row.unsqueeze(dim)
        return Latent(self.index.unsqueeze(dim), box, row)
