"""The duality gap of (14), computed again in float64 by numpy from the planes and weights alone."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lvmdc import LSVM, Candidates, LabelLoss, OverlapLoss
from lvmdc.samples import split_by_class
from lvmdc.testing import random_candidates

MAMMALS = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals" / "hog.npz"


def gap_by_numpy(candidates, y, loss, C, w, planes, truth):
    """(14) at w minus its dual at the weights of the planes; `loss` (T, K) is Δ of every (y, h), `truth` the packed rows of h*."""
    x, counts = candidates.features.double().numpy(), candidates.counts.numpy()
    n, used = len(counts), np.arange(planes.alpha.shape[1]) < planes.count[:, None]
    alpha, row, cls = (np.where(used, t, 0) for t in (planes.alpha, planes.row, planes.cls))
    assert (alpha >= 0).all()
    np.testing.assert_allclose(alpha.sum(axis=1), C / n, rtol=1e-9)
    assert (candidates.sample.numpy()[row] == np.arange(n)[:, None])[used].all()  # a plane belongs to its sample
    dual_w, linear = np.zeros_like(w), 0.0
    for i in range(n):
        dual_w[y[i]] += C / n * x[truth[i]]
        for p in np.flatnonzero(used[i]):
            dual_w[cls[i, p]] -= alpha[i, p] * x[row[i, p]]
            linear += alpha[i, p] * loss[row[i, p], cls[i, p]]
    scores, xi, start = x @ w.T, 0.0, 0
    for i in range(n):
        own = slice(start, start + counts[i])
        xi += (scores[own] + loss[own]).max() - scores[truth[i], y[i]]
        start += counts[i]
    return 0.5 * (w**2).sum() + C / n * xi - (linear - 0.5 * (dual_w**2).sum())


def check(candidates, y, kind, C, cccp, tol, **settings):
    model = LSVM(kind, C=C, tol=tol, cccp=cccp, seed=1, **settings).fit(candidates, y)
    solver = model._training.cccp.solver
    gap = gap_by_numpy(
        candidates, y.numpy(), solver.losses.astype(np.float64), C, model.coef_.numpy(), solver.planes, solver.latents.rows.numpy()
    )
    assert model.converged_
    assert -1e-3 * C * tol <= gap <= C * tol


@pytest.mark.parametrize("cccp", ["inexact", "eager"])
@pytest.mark.parametrize("kind", [LabelLoss(), OverlapLoss()], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_at_the_end_is_within_the_tolerance(cccp, kind, seed):
    y = torch.arange(30) % 3
    noise = random_candidates([4] * 30, n_features=8, seed=seed, dtype=torch.float32)
    features = noise.features.clone()
    features[noise.offsets, y] += 2.0
    check(Candidates(features, noise.counts, noise.boxes), y, kind, 10.0, cccp, 1e-3)


@pytest.mark.parametrize(("solver", "init"), [("n_slack", "random"), ("n_slack", "uniform")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_gap_far_below_the_rounding_of_the_features_is_reached(tmp_path, dtype, init, solver):
    y = torch.arange(30) % 3
    noise = random_candidates([4] * 30, n_features=8, seed=0, dtype=torch.float32)
    features = noise.features.clone()
    features[noise.offsets, y] += 2.0
    candidates, tol = Candidates(features.to(dtype), noise.counts), 1e-8
    stored = [candidates]
    if dtype != torch.bfloat16:  # which numpy has no name for
        np.save(tmp_path / "features.npy", candidates.features.numpy())
        stored.append(Candidates(np.load(tmp_path / "features.npy", mmap_mode="r"), noise.counts))
    for each in stored:
        check(each, y, LabelLoss(), 10.0, "inexact", tol, init=init, solver=solver)


@pytest.mark.slow
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not MAMMALS.is_file(), reason="LVMDC_DATA holds no mammals/hog.npz")
@pytest.mark.parametrize("cccp", ["inexact", "eager"])
def test_the_gap_on_the_mammals(cccp):
    with np.load(MAMMALS, allow_pickle=False) as file:
        candidates, y = Candidates(file["features"].astype(np.float32), file["counts"]), torch.as_tensor(file["labels"])
    train, _ = split_by_class(y, fold=0)
    check(candidates.subset(train), y[train], LabelLoss(), 10.0, cccp, 1e-3)
