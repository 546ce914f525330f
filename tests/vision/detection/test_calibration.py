"""Probabilities of scores: Platt's likelihood, from images that were not learned from."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.isotonic import isotonic_regression
from test_detector import planted

from lvmdc import LSVM, Candidates, OverlapLoss
from lvmdc.vision.detection import Detector, calibrate, platt
from lvmdc.vision.detection.calibration import LEAST, as_probability


def likelihood(pair, s, there):
    """Platt's negative log-likelihood, by its formula."""
    n = there.sum()
    t = np.where(there, (n + 1) / (n + 2), 1 / (len(there) - n + 2))
    z = pair[0] * s + pair[1]
    return float((np.logaddexp(0, z) - t * z).sum())


@pytest.mark.parametrize("gap", [0.5, 2.0, 50.0])
def test_slope_and_shift_are_those_of_the_likelihood(gap):
    rng = np.random.default_rng(0)
    there = np.arange(40) % 3 == 0
    s = rng.normal(size=40) + gap * there
    best = minimize(likelihood, [1.0, 0.0], args=(s, there), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000})
    found = platt(torch.tensor(s), torch.tensor(there)).numpy()
    assert likelihood(found, s, there) == pytest.approx(best.fun, abs=1e-4)
    assert np.isfinite(found).all()


def test_a_better_score_is_never_less_likely():
    found = platt(torch.tensor([3.0, 2.0, -1.0, -2.0]), torch.tensor([False, False, True, True]))
    assert float(found[0]) == pytest.approx(LEAST)
    assert float(as_probability(torch.tensor(0.5), found)) == pytest.approx(0.5, abs=1e-3)


def test_every_image_is_scored_by_what_did_not_learn_from_it():
    column, seen = torch.tensor([1, -1, 0] * 10), []

    def held_out(index):
        seen.append(index)
        index = index.to(column.device)
        return torch.where(column[index] == 1, 1.0, -1.0) + 0.01 * index

    calibrate(column, torch.zeros(30), held_out, folds=5)
    assert len(seen) == 5
    assert torch.equal(torch.cat(seen).sort().values, (column != 0).nonzero().flatten().cpu())
    assert all((column[part] == 1).sum() == (column[part] == -1).sum() == 2 for part in seen)


def test_a_class_in_one_image_alone_is_calibrated_by_its_own_scores():
    column, own = torch.tensor([1, -1, -1]), torch.tensor([2.0, -1.0, -3.0])
    assert torch.equal(calibrate(column, own, pytest.fail, 3), platt(own, column == 1))


@pytest.mark.slow
def test_what_is_said_to_be_likely_is_there_in_other_images_whatever_its_class():
    """Classes of which one is written far larger than the other, and noise that the detector learns by heart."""
    g = torch.Generator().manual_seed(7)
    parts = [planted(seed=seed, n=120, noise=0.9) for seed in (1, 2)]
    noise = [torch.randn(len(c.features), 60, generator=g) for c, _, _ in parts]
    (train, labels), (test, test_labels) = (
        (Candidates(torch.cat([c.features, more], dim=1), c.counts, c.boxes), y) for (c, y, _), more in zip(parts, noise, strict=True)
    )
    found = {}
    for folds in (0, 3):
        detector = Detector(LSVM(OverlapLoss(), C=10.0), calibration=folds).fit(train, labels)
        best = detector.probabilities(test).reshape(120, 8, 3).amax(dim=1).flatten().numpy()
        there = (test_labels == 1).flatten().double().numpy()
        order = best.argsort()
        smooth = isotonic_regression(there[order])  # how often it is there, by increasing probability
        found[folds] = float(np.abs(smooth - best[order]).mean())
    assert found[3] < 0.15
    assert found[3] < found[0]
