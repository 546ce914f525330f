"""A network of regions: the numbers of the frozen one, its length, and the same with less memory."""

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.features import CNN, Learned, RegionNetwork
from lvmdc.vision.features.regions import LENGTH, LengthNorm

BOXES = torch.tensor([[0.0, 0.0, 40.0, 30.0], [10.0, 5.0, 64.0, 48.0], [3.0, 3.0, 60.0, 44.0]])


def image(seed=0, size=(64, 48)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def small(**settings):
    return RegionNetwork("small_cnn", weights=None, stride=8, longer_side=64, **settings)


EQUAL, RING = {"normalise": 0.25}, {"normalise": 0.0, "contrast": "ring"}


@pytest.mark.parametrize("settings", [{"grid": 1}, {"grid": 2}, EQUAL, RING, RING | {"grid": 2}], ids=str)
def test_features_are_those_of_the_frozen_network_up_to_one_factor(settings):
    network = RegionNetwork("mobilenet_v3_small", weights=None, longer_side=128, **settings).eval()
    frozen = CNN("mobilenet_v3_small", mode="roi", weights=None, longer_side=128, **settings).describe(image(), BOXES)
    found = Learned(network).describe(image(), BOXES)
    assert found.shape == (3, network.n_features)
    factor = float(found.norm() / frozen.norm())
    torch.testing.assert_close(found, factor * frozen, rtol=1e-4, atol=1e-4)
    assert ("contrast" in Learned(network).settings()) == ("contrast" in settings)


def test_equal_lengths_and_contrast_have_gradients():
    views = [small().prepare(image(i), BOXES) for i in range(2)]
    network = small(**RING).train()
    psi, _ = network([v for v, _ in views], [b for _, b in views])
    assert torch.allclose(psi[:, : psi.shape[1] // 2].norm(dim=1), psi[0, : psi.shape[1] // 2].norm())
    (psi @ torch.linspace(-1, 1, psi.shape[1])).sum().backward()
    assert all(bool(p.grad.isfinite().all()) and bool(p.grad.any()) for p in network.parameters() if p.grad is not None)
    with pytest.raises(ValueError, match="contrast='ring' compares numbers of equal length"):
        small(contrast="ring")


def test_images_of_several_sizes_come_back_in_order():
    network = small(theta_grid=2).eval()
    views = [network.prepare(image(i, size), BOXES[: i + 1] / 2) for i, size in enumerate([(64, 48), (40, 64), (64, 48)])]
    psi, phi = network([v for v, _ in views], [b for _, b in views])
    alone = [network([v], [b]) for v, b in views]
    torch.testing.assert_close(psi, torch.cat([a for a, _ in alone]))
    torch.testing.assert_close(phi, torch.cat([b for _, b in alone]))
    assert psi.shape == (6, 128)
    assert phi.shape == (6, 512)


def test_checkpointing_changes_neither_numbers_nor_gradients():
    views = [small().prepare(image(i), BOXES) for i in range(2)]
    found = []
    for checkpointing in (False, True):
        network = small(checkpointing=checkpointing).train()
        psi, _ = network([v for v, _ in views], [b for _, b in views])
        psi.square().sum(1).sqrt().sum().backward()
        found.append((psi.detach(), [p.grad for p in network.parameters()]))
    torch.testing.assert_close(found[0][0], found[1][0])
    for one, two in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_length_is_one_factor_and_longer_features_gain_nothing():
    norm, x = LengthNorm(), torch.randn(50, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = norm(x)
    assert float(y.square().sum(1).mean().sqrt()) == pytest.approx(LENGTH)
    torch.testing.assert_close(y / x, torch.full_like(x, float(y[0, 0] / x[0, 0])))
    torch.testing.assert_close(norm(3 * x), y)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(norm(x)[:, 0].sum(), x)
    assert float((grad * x).sum().detach()) == pytest.approx(0, abs=1e-9)  # along x itself nothing changes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"longer_side": 60}, "longer_side must be a multiple of stride = 8 pixels, but it is 60"),
        ({"grid": 0}, "grid must be at least 1, but it is 0"),
        ({"theta_grid": 0}, "theta_grid must be at least 1, but it is 0"),
        ({"weights": "default"}, "weights of small_cnn must be null or a file"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RegionNetwork(**{"backbone": "small_cnn", "weights": None, "stride": 8, "longer_side": 64} | settings)


def test_features_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="must be finite and not all zero"):
        LengthNorm().calibrate(torch.tensor(0.0))


def test_a_frozen_part_changes_no_number_and_never_learns():
    pixels, boxes = RegionNetwork("mobilenet_v3_small", weights=None, longer_side=128).prepare(image(), BOXES)
    whole = RegionNetwork("mobilenet_v3_small", weights=None, longer_side=128).eval()
    part = RegionNetwork("mobilenet_v3_small", weights=None, longer_side=128, frozen="features.8").eval()
    expected = whole([pixels], [boxes])[0]
    torch.testing.assert_close(part([pixels], [boxes])[0], expected)
    begun = part.begin(pixels)
    assert begun.shape == (48, 6, 8)
    torch.testing.assert_close(part([begun], [boxes])[0], expected)
    part([begun], [boxes])[0].sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in part.stem.parameters())
    assert all(p.grad is not None for p in part.trunk.parameters())
    names = [name for name, _ in part.named_parameters()]
    assert len(names) == len(list(whole.parameters()))
    assert {name.split(".")[2] for name in names if name.startswith("stem")} == {str(i) for i in range(9)}


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ("layers.99", "frozen must name a part of the network, such as layers.9, but it is 'layers.99'"),
        ("layers", "frozen must leave something to learn, but nothing comes after layers"),
    ],
)
def test_a_part_that_cannot_be_frozen_is_refused(frozen, message):
    with pytest.raises(ValueError, match=message):
        small(frozen=frozen)


def test_a_part_that_is_passed_by_cannot_be_frozen():
    with pytest.raises(ValueError, match=r"but something bypasses layer1\.0\.conv1"):
        RegionNetwork("resnet18", weights=None, frozen="layer1.0.conv1")


def test_the_settings_of_learned_features_follow_the_weights():
    network = small()
    before = Learned(network).settings()
    assert Learned(small()).settings() == before
    with torch.no_grad():
        next(network.trunk.parameters()).add_(1.0)
    assert Learned(network).settings() != before
    assert Learned(small(grid=2)).settings() != before
