import numpy as np
import pytest

from lvmdc.reporting.curves import label, linear_ticks, log_ticks


@pytest.mark.parametrize("low", [-1e6, -7.3, 0.0, 1e-9, 0.31, 12345.6])
@pytest.mark.parametrize("span", [1e-3, 0.7, 1.0, 99.0, 1e12])
def test_linear_ticks_lie_within_at_even_steps_and_are_few(low, span):
    ticks = linear_ticks(low, low + span)
    assert 2 <= len(ticks) <= 8
    assert low - 1e-6 * span <= min(ticks) <= max(ticks) <= low + span * (1 + 1e-6)
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])


@pytest.mark.parametrize(("low", "high"), [(1, 2), (1, 3), (1, 50), (3, 400)])
def test_whole_ticks_are_whole(low, high):
    assert all(tick == int(tick) for tick in linear_ticks(low, high, whole=True))


@pytest.mark.parametrize("low", [1e-12, 0.37, 1.0, 4e6])
@pytest.mark.parametrize("ratio", [1.5, 7.0, 40.0, 1e3, 1e15])
def test_log_ticks_lie_within_and_are_few(low, ratio):
    ticks = log_ticks(low, low * ratio)
    assert 2 <= len(ticks) <= 9
    assert low * (1 - 1e-6) <= min(ticks) < max(ticks) <= low * ratio * (1 + 1e-6)


def test_labels_read_back():
    for value in (0.25, 1e-9, 5e7, -3.0, 123456.0, 0.0):
        assert float(label(value).replace("−", "-")) == value
