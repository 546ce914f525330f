"""Both ways of RoIAlign are torchvision's, with the same derivatives."""

import pytest
import torch
from torchvision.ops import roi_align

from lvmdc.vision.features import roi as module
from lvmdc.vision.features.roi import roi_pool


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("channels", [5, 100])  # of maps that have 48 cells: more, and fewer
def test_numbers_and_derivatives_are_those_of_torchvision(channels, grid):
    g = torch.Generator().manual_seed(0)
    maps = torch.randn(2, channels, 6, 8, dtype=torch.float64, generator=g)
    corner = 40 * torch.rand(9, 2, dtype=torch.float64, generator=g)
    boxes = torch.cat([corner, corner + 1 + 24 * torch.rand(9, 2, dtype=torch.float64, generator=g)], dim=1)  # some reach out
    places, found = [boxes[:4], boxes[4:]], []
    for pool in (roi_pool, lambda m, p, grid, stride: roi_align(m, p, grid, 1 / stride, aligned=True).flatten(1)):
        given = maps.clone().requires_grad_()
        value = pool(given, places, grid, 8)
        (value * torch.arange(value.numel()).reshape(value.shape)).sum().backward()
        found.append((value.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1])
    assert found[0][0].shape == (9, channels * grid**2)


def test_half_precision_around_it_moves_no_box():
    maps, places = torch.rand(1, 64, 4, 4), [torch.tensor([[3.3, 7.7, 20.1, 29.9]])]
    expected = roi_pool(maps, places, 2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(module.roi_pool(maps, places, 2, 8), expected)
