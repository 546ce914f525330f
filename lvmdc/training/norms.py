"""What w is kept small by: the square of its length, or a norm that makes it sparse, with the proximal step that goes with it."""

from typing import Literal, get_args

import torch
from torch import Tensor

Norm = Literal["l2", "l1", "group"]
NORMS = get_args(Norm)


def norm_value(norm: Norm, w: Tensor) -> Tensor:
    """Ω(w) in float64, for w (K, d): ½‖w‖², Σ|w_kj|, or Σ_j ‖w_·j‖₂, one group for each feature across the classes.

    >>> w = torch.tensor([[3.0, 0.0], [4.0, 1.0]])
    >>> [float(norm_value(norm, w)) for norm in ("l2", "l1", "group")]
    [13.0, 8.0, 6.0]
    """
    w = w.double()
    if norm == "l2":
        return 0.5 * w.square().sum()
    return w.abs().sum() if norm == "l1" else torch.linalg.vector_norm(w, dim=0).sum()


def prox(norm: Norm, w: Tensor, step: float) -> Tensor:
    """argmin_v ½‖v − w‖² + step·Ω(v), for w (K, d).

    `l1` draws every number towards zero by `step`, `group` every column, as a whole, by as much of its length: a shorter one is zero then.

    >>> prox("group", torch.tensor([[3.0, 0.0], [4.0, 1.0]]), 1.0)
    tensor([[2.4000, 0.0000],
            [3.2000, 0.0000]])
    """
    if norm == "l2":
        return w / (1 + step)
    length = w.abs() if norm == "l1" else torch.linalg.vector_norm(w, dim=0, keepdim=True)
    return torch.where(length > step, w * (1 - step / length.clamp(min=torch.finfo(w.dtype).tiny)), 0.0)
