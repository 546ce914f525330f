"""Explicit kernel maps: their inner products against the kernels by definition, and what they are fitted on."""

import numpy as np
import pytest
import torch

from lvmdc import Candidates
from lvmdc.lightning.data import LatentDataModule
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, KernelMap
from lvmdc.vision.proposals import WindowGrid


def some(n=120, d=6, seed=0, phi=False, dtype=torch.float32):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(size=(n, d))).to(dtype)
    boxes = torch.tensor([[0.0, 0.0, 2.0, 1.0]]).repeat(n, 1)
    return Candidates(x, [n // 3, n - n // 3], boxes, torch.from_numpy(rng.uniform(size=(n, 3))).float() if phi else None)


def gaussian(x, gamma):
    x = x.double().numpy()
    return np.array([[np.exp(-gamma * ((a - b) ** 2).sum()) for b in x] for a in x])


def additive_chi2(x):
    x = x.double().numpy()
    return np.array([[(2 * a * b / (a + b)).sum() for b in x] for a in x])


def error(mapped, kernel):
    z = mapped.features.double().numpy()
    return float(np.abs(z @ z.T - kernel).mean())


@pytest.mark.parametrize(("kind", "sizes"), [("fourier", (30, 300, 3000)), ("nystroem", (5, 20, 100))])
def test_inner_products_come_near_the_gaussian_kernel_as_the_map_grows(kind, sizes):
    c = some()
    kernel = gaussian(c.features, 0.7)
    errors = [error(KernelMap(kind, n_components=size, gamma=0.7).fit(c)(c), kernel) for size in sizes]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]
    assert errors[2] < 0.02


def test_inner_products_come_near_the_additive_chi2_kernel():
    c = some()
    errors = [error(KernelMap("chi2", sample_steps=s).fit(c)(c), additive_chi2(c.features)) for s in (1, 2, 3)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1  # of kernel values around 3


def test_gamma_is_that_of_the_training_features():
    c = some()
    gamma = 1 / (6 * float(c.features.double().var(unbiased=False)))
    a, b = (KernelMap("fourier", n_components=20, gamma=g).fit(c)(c).features for g in (None, gamma))
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["fourier", "nystroem", "chi2"])
def test_everything_but_the_features_stays_and_phi_is_mapped_by_its_own(kind):
    c = some(phi=True, dtype=torch.float16)
    c = c.with_prior(torch.arange(c.n_candidates))
    mapped = KernelMap(kind, n_components=10).fit(c)(c)
    assert torch.equal(mapped.counts, c.counts)
    assert torch.equal(mapped.prior, c.prior)
    assert torch.equal(mapped.boxes, c.boxes)
    alone = Candidates(c.phi, c.counts)
    assert torch.equal(mapped.phi, KernelMap(kind, n_components=10).fit(alone)(alone).features)
    assert mapped.features.dtype == torch.float32


@pytest.mark.parametrize("kind", ["fourier", "nystroem"])
def test_a_training_is_mapped_by_what_its_training_part_says_alone(kind):
    # The map of the data module is the one that is fitted on its training part, and not that of everything.
    parts = cluttered_digits(per_class=5, digits=(0, 2)), WindowGrid(), HOG()
    plain = LatentDataModule(*parts, val_fraction=0.3, progress=False)
    mapped = LatentDataModule(*parts, val_fraction=0.3, progress=False, kernel_map=KernelMap(kind, n_components=12))
    plain.setup()
    mapped.setup()
    right = KernelMap(kind, n_components=12).fit(plain.train.candidates)
    for name in ("train", "val", "test"):
        assert torch.equal(getattr(mapped, name).candidates.features, right(getattr(plain, name).candidates).features)
    everything = Candidates.concat([plain.train.candidates, plain.val.candidates, plain.test.candidates])
    wrong = KernelMap(kind, n_components=12).fit(everything)(plain.test.candidates).features
    assert not torch.equal(mapped.test.candidates.features, wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KernelMap("poly"), "kind must be one of fourier, nystroem, chi2, but it is 'poly'"),
        (lambda: KernelMap("fourier", gamma=-1.0), "gamma must be positive, but it is -1.0"),
        (lambda: KernelMap("fourier", n_components=0), "n_components must be at least 1"),
        (lambda: KernelMap("chi2", sample_steps=4), "sample_steps must be 1, 2 or 3"),
        (lambda: KernelMap("fourier")(some()), "not fitted yet"),
        (lambda: KernelMap("nystroem", n_components=500).fit(some()), "at most 120, the training candidates"),
        (lambda: KernelMap("fourier").fit(some())(some(d=5)), "features must have 6 numbers per candidate"),
        (lambda: KernelMap("fourier").fit(some())(some(phi=True)), "phi= if and only if"),
        (lambda: KernelMap("chi2").fit(Candidates(-torch.ones(2, 2), [2])), "nowhere negative"),
    ],
)
def test_what_cannot_be_mapped_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
