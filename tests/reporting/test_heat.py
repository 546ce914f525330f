import numpy as np
import torch

from lvmdc.reporting.drawing import RAMP, coverage, ramp


def oklab_lightness(rgb):
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cone = linear @ np.array([[0.4122214708, 0.2119034982, 0.0883024619], [0.5363325363, 0.6806995451, 0.2817188376],
                              [0.0514459929, 0.1073969566, 0.6299787005]])  # fmt: skip
    return np.cbrt(cone) @ np.array([0.2104542553, 0.7936177850, -0.0040720468])


def test_coverage_is_the_sum_of_the_probabilities_of_the_boxes_over_a_pixel():
    generator = torch.Generator().manual_seed(0)
    corner = 40 * torch.rand(30, 2, generator=generator) - 5
    boxes = torch.cat([corner, corner + 1 + 20 * torch.rand(30, 2, generator=generator)], dim=1)
    p = torch.rand(30, generator=generator)
    brute = np.zeros((90, 110))
    for (x1, y1, x2, y2), weight in zip((boxes * 2.5).round().int().tolist(), (p.double() / p.double().sum()).tolist(), strict=True):
        brute[max(y1, 0) : max(y2, 0), max(x1, 0) : max(x2, 0)] += weight
    assert np.allclose(coverage(boxes, p, (110, 90), 2.5), brute)


def test_coverage_is_a_probability():
    boxes = torch.tensor([[0.0, 0, 3, 3]]).repeat(1000, 1)
    values = coverage(boxes, torch.full((1000,), 0.1), (4, 4))
    assert values.min() == 0
    assert np.isclose(values.max(), 1)


def test_the_ramp_is_perceptually_even_and_ever_more_opaque():
    steps = np.diff(oklab_lightness(np.array(RAMP) / 255))
    assert (steps < 0).all()
    assert np.ptp(steps) < 0.25 * abs(steps.mean())
    opacity = ramp(np.linspace(0, 1, 50))[:, 3].astype(int)
    assert opacity[0] == 0
    assert (np.diff(opacity) > 0).all()
