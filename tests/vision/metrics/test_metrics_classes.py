import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score

from lvmdc.vision import metrics


def test_class_error_is_one_minus_accuracy():
    rng = np.random.default_rng(0)
    y, y_hat = rng.integers(0, 3, (2, 57))
    assert metrics.class_error(y, torch.from_numpy(y_hat)) == pytest.approx(1 - accuracy_score(y, y_hat))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"y and y_hat must have one shape"):
        metrics.class_error([0, 1], [0])
