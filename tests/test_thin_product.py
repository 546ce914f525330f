import pytest
import torch

from lvmdc.feature_maps import product
from lvmdc.thin_product import FEW, suits, thin_product, thin_transposed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "classes", "length"), [(1, 1, 1), (8, 1, 3), (7, 2, 33), (41, 6, 100), (0, 3, 4), (3, 2, 0)])
def test_the_compiled_product_is_that_of_torch(rows, classes, length, dtype):
    generator = torch.Generator().manual_seed(0)
    x, table = (torch.randn(n, length, generator=generator, dtype=dtype) for n in (rows, classes))
    assert suits(x, table)
    close = {"atol": 1e-5 if dtype == torch.float32 else 1e-12}
    assert torch.allclose(thin_product(x, table), x @ table.T, **close)
    weights = torch.randn(rows, classes, generator=generator, dtype=dtype)
    assert torch.allclose(thin_transposed(x, weights), weights.T.double() @ x.double(), atol=1e-12)


def test_what_needs_a_derivative_or_has_many_classes_is_left_to_torch():
    x, table = torch.randn(5, 4), torch.randn(FEW + 1, 4)
    assert not suits(x, table)
    assert not suits(x.half(), table[:2].half())
    w = table[:2].clone().requires_grad_()
    assert not suits(x, w)
    product(x, w).sum().backward()
    assert torch.allclose(w.grad, x.sum(0).expand(2, -1))


def test_rows_that_do_not_lie_together_are_left_to_torch():
    x, table = torch.randn(5, 8), torch.randn(2, 4)
    assert torch.allclose(product(x[:, ::2], table), x[:, ::2] @ table.T)


def test_a_row_has_the_same_product_wherever_it_stands():
    x, table = torch.randn(1, 100).repeat(19, 1), torch.randn(3, 100)
    assert bool((thin_product(x, table) == thin_product(x[:1], table)).all())
