"""Digits under a latent rotation, embedded and from idx files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from lvmdc import LSVM, LabelLoss
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import RotationSet, mnist, rotated_digits
from lvmdc.vision.datasets.rotated_digits import ROTATIONS, read_idx, turned


def test_turning_is_counter_clockwise_about_the_middle():
    image = np.random.default_rng(0).random((1, 9, 9)).astype(np.float32)
    assert np.allclose(turned(image, 90)[0], np.rot90(image[0]), atol=1e-5)
    assert np.allclose(turned(np.repeat(image, 2, 0), np.array([0.0, 180.0]))[1], image[0, ::-1, ::-1], atol=1e-5)


def test_eleven_angles_from_minus_sixty_to_sixty():
    assert (len(ROTATIONS), ROTATIONS[0], ROTATIONS[5], ROTATIONS[-1]) == (11, -60, 0, 60)


def test_turned_back_by_the_true_angle_a_digit_looks_as_it_did():
    smooth = turned(np.random.default_rng(0).random((1, 21, 21)).astype(np.float32), 0)
    smooth[0] = np.outer(np.hanning(21), np.hanning(21)) * np.linspace(0.2, 1, 21)
    found = RotationSet(turned(smooth, ROTATIONS[8]), ["1"], [0], h=[8])
    rows = found.candidates().features
    upright = torch.from_numpy(smooth[0] / np.linalg.norm(smooth[0])).flatten().float()
    assert int((rows @ upright).argmax()) == 8
    assert torch.allclose(rows.norm(dim=1), torch.ones(11), atol=1e-5)


def test_drawing_has_a_place_for_every_angle():
    found = rotated_digits(per_class=2)
    width, height = found.image(1).size
    assert found.places(1).shape == (11, 4)
    assert found.places(1)[-1].tolist() == [width - height, 0.0, width, height]


@pytest.mark.parametrize("pair", [(1, 7), (2, 7), (3, 8), (8, 9)])
def test_pairs_of_digits_are_distinguished(pair):
    found = rotated_digits(pair, per_class=60)
    assert found.classes == [str(d) for d in pair]
    train, test = split_by_class(found.y, groups=found.groups)
    c = found.candidates()
    model = LSVM(LabelLoss(), C=10.0, tol=0.01).fit(c.subset(train), found.y[train])
    assert 1 - model.score(c.subset(test), found.y[test]) < 0.3


def test_digits_repeat_by_seed_and_those_that_come_again_share_a_group():
    one, two, other = (rotated_digits(seed=s, per_class=200) for s in (0, 0, 1))
    assert np.array_equal(one.images, two.images)
    assert not np.array_equal(one.images, other.images)
    assert len(set(one.groups.tolist())) < 400  # a class has fewer than 200 digits
    part = one.subset([3, 1])
    assert np.array_equal(part.images[0], one.images[3])


def test_pair_that_is_none_is_refused():
    for pair in ([1], [1, 1], [1, 12]):
        with pytest.raises(ValueError, match="pair must be two or more different digits"):
            rotated_digits(pair)


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def digits(tmp_path) -> Path:
    """Idx files like MNIST's, of 40 and 20 noisy images; the test part is compressed."""
    rng = np.random.default_rng(0)
    for part, n, suffix in (("train", 40, ""), ("t10k", 20, ".gz")):
        files = {"images-idx3": rng.integers(0, 256, (n, 28, 28)), "labels-idx1": np.arange(n) % 10}
        for kind, array in files.items():
            data = idx(array)
            (tmp_path / f"{part}-{kind}-ubyte{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    return tmp_path


def test_mnist_is_read_plain_and_compressed_and_divided_as_it_came(digits):
    found = mnist(digits, pair=(3, 8), per_class=3)
    assert found.classes == ["3", "8"]
    assert [len(part) for part in found.division] == [6, 4]
    assert torch.bincount(found.y[found.division[0]]).tolist() == [3, 3]
    assert len(mnist(digits, pair=(3, 8), per_class=None)) == 12
    upright = read_idx(digits / "train-images-idx3-ubyte")[3] / 255
    assert np.allclose(found.images[0], turned(upright[None].astype(np.float32), ROTATIONS[int(found.h[0])])[0], atol=1e-5)


def test_damaged_idx_files_are_refused_by_name(digits):
    images = digits / "train-images-idx3-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:1000])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte must hold 31360 bytes for its shape \(40, 28, 28\), but it holds 984"):
        mnist(digits)
    images.write_bytes(b"PNG" + whole)
    with pytest.raises(ValueError, match="train-images-idx3-ubyte must be an idx file of unsigned bytes"):
        mnist(digits)
    images.write_bytes(idx(np.zeros((39, 28, 28))))
    with pytest.raises(ValueError, match="one label for each of the 39 train images, but it has 40"):
        mnist(digits)
    images.write_bytes(idx(np.zeros(40)))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte must have shape \(n, s, s\)"):
        mnist(digits)
    images.write_bytes(whole)
    packed = digits / "t10k-labels-idx1-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:15])
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz cannot be unpacked"):
        mnist(digits)
    packed.unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold t10k-labels-idx1-ubyte, or the same with \.gz"):
        mnist(digits)
