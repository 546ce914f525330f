"""features @ tableᵀ for few classes, compiled: linear algebra libraries are made for square matrices and take twice as long here."""

import numpy as np
import torch
from torch import Tensor

from lvmdc.compiled import FAST, Array, compiled

FEW = 12  # classes up to which it is faster
THREADS = 2  # of torch, beyond which torch is faster: the loops below run in one
ROWS = 8  # at a time, for as many independent sums


@compiled(fastmath=FAST)
def _eight(x: Array, w: Array, out: Array) -> None:  # pragma: no cover
    """out (8,) = x (8, d) · w (d,)."""
    a, b, c, d, e, f, g, h = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = out.dtype.type(0)
    for j in range(len(w)):
        v = w[j]
        s0 += a[j] * v
        s1 += b[j] * v
        s2 += c[j] * v
        s3 += d[j] * v
        s4 += e[j] * v
        s5 += f[j] * v
        s6 += g[j] * v
        s7 += h[j] * v
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = s0, s1, s2, s3, s4, s5, s6, s7


@compiled()
def _product(x: Array, table: Array, out: Array) -> None:  # pragma: no cover
    whole = len(x) - len(x) % ROWS
    for i in range(0, whole, ROWS):
        for k in range(len(table)):
            _eight(x[i : i + ROWS], table[k], out[i : i + ROWS, k])
    # The last rows by the same loop, so that a row's product is the same wherever the row is, to the last digit.
    rest, last = np.zeros((ROWS, x.shape[1]), x.dtype), np.empty(ROWS, out.dtype)
    rest[: len(x) - whole] = x[whole:]
    for k in range(len(table)):
        _eight(rest, table[k], last)
        out[whole:, k] = last[: len(x) - whole]


@compiled(fastmath=FAST)
def _add_eight(x: Array, weight: Array, out: Array) -> None:  # pragma: no cover
    """out (d,) += weight (8,) · x (8, d), the last two in float64, to which each number of x is widened."""
    a, b, c, d, e, f, g, h = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    w0, w1, w2, w3, w4, w5, w6, w7 = weight[0], weight[1], weight[2], weight[3], weight[4], weight[5], weight[6], weight[7]
    for j in range(len(out)):
        first = (w0 * a[j] + w1 * b[j]) + (w2 * c[j] + w3 * d[j])
        out[j] += first + ((w4 * e[j] + w5 * f[j]) + (w6 * g[j] + w7 * h[j]))


@compiled()
def _transposed(x: Array, weights: Array, out: Array) -> None:  # pragma: no cover
    whole = len(x) - len(x) % ROWS
    for i in range(0, whole, ROWS):
        for k in range(weights.shape[1]):
            _add_eight(x[i : i + ROWS], weights[i : i + ROWS, k], out[k])
    rest, last = np.zeros((ROWS, x.shape[1]), x.dtype), np.zeros((ROWS, weights.shape[1]))
    rest[: len(x) - whole], last[: len(x) - whole] = x[whole:], weights[whole:]
    for k in range(weights.shape[1]):
        _add_eight(rest, last[:, k], out[k])


def suits(features: Tensor, table: Tensor) -> bool:
    """Whether the compiled product works for these tensors and is faster."""
    plain = all(t.device.type == "cpu" and t.dtype in (torch.float32, torch.float64) and not t.requires_grad for t in (features, table))
    return plain and features.is_contiguous() and len(table) <= FEW and torch.get_num_threads() <= THREADS


def thin_product(features: Tensor, table: Tensor, out: Tensor | None = None) -> Tensor:
    """features (T, d) @ table (K, d)ᵀ, of one precision, into `out` (T, K) where it is given.

    >>> thin_product(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
    tensor([[3.]])
    """
    out = features.new_empty(len(features), len(table)) if out is None else out
    _product(features.detach().numpy(), table.detach().contiguous().numpy(), out.numpy())
    return out


def thin_transposed(features: Tensor, weights: Tensor) -> Tensor:
    """weights (T, K)ᵀ @ features (T, d), summed in float64, so that the order of rows, as over ranks, hardly matters.

    >>> thin_transposed(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [0.5]]))
    tensor([[2.5000, 4.0000]], dtype=torch.float64)
    """
    out = torch.zeros(weights.shape[1], features.shape[1], dtype=torch.float64)
    _transposed(features.detach().numpy(), weights.detach().double().contiguous().numpy(), out.numpy())
    return out
