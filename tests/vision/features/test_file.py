"""Features and boxes that come from a file, by the names of images."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import ImageSet, folder
from lvmdc.vision.features import FileFeatures, build_candidates, cache_key
from lvmdc.vision.features.file import NamedRows
from lvmdc.vision.proposals import FileProposals, Proposals, WindowGrid

MAMMALS = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals"
IMAGE = Image.new("RGB", (10, 8))
ARRAYS = {
    "images": np.array(["cat/1.jpg", "dog/1.jpg", "dog/é.jpg"]),
    "counts": np.array([1, 2, 1]),
    "boxes": np.array([[0, 0, 4, 4], [1, 1, 5, 5], [2, 2, 12.5, 6], [3, 3, 7, 7]], np.float32),
    "features": np.array([[1, 0.1], [2, 0.2], [3, 0.3], [4, 0.4]], np.float16),
}


@pytest.fixture
def write(tmp_path):
    def write(**changed):
        arrays = {name: value for name, value in (ARRAYS | changed).items() if value is not None}
        np.savez(tmp_path / "a.npz", **arrays)
        return tmp_path / "a.npz"

    return write


def boxes(*rows):
    return torch.from_numpy(ARRAYS["boxes"][list(rows)])


class FromFile(Proposals):
    """The boxes of the file themselves, cut off at the edge of the image or not."""

    def __init__(self, path, cut):
        self.rows, self.cut = NamedRows(path), cut

    def boxes(self, image, name):
        own = self.rows.boxes[self.rows.of(name)]
        return torch.minimum(own, torch.tensor([image.width, image.height] * 2)) if self.cut else own

    def settings(self):
        return {}


def test_each_image_gets_its_own_rows_in_full_precision(write):
    features = FileFeatures(write())
    assert features.n_features == 2
    for name, rows in (("cat/1.jpg", [0]), ("dog/1.jpg", [1, 2]), ("dog/é.jpg", [3])):
        numbers = features.describe_named(IMAGE, name, boxes(*rows))
        assert numbers.dtype == torch.float32
        assert torch.equal(numbers, torch.from_numpy(ARRAYS["features"][rows].astype(np.float32)))


@pytest.mark.parametrize("cut", [True, False])
def test_boxes_may_be_cut_off_at_the_edge(write, cut):
    path = write()
    images = ImageSet([np.zeros((8, 10), np.uint8)] * 3, ["cat", "dog"], [0, 1, 1], names=ARRAYS["images"].tolist())
    candidates = build_candidates(images, FromFile(path, cut), FileFeatures(path), progress=False)
    assert candidates.counts.tolist() == [1, 2, 1]
    assert torch.equal(candidates.features, torch.from_numpy(ARRAYS["features"].astype(np.float32)))


@pytest.mark.parametrize("name", ["photos/cat/1.jpg", "./cat/1.jpg", "cat\\1.jpg", "cat/1.jpg"])
def test_an_image_is_found_by_the_end_of_a_longer_name(write, name):
    rows = NamedRows(write(images=np.array([name, "dog/1.jpg", "dog/e\u0301.jpg"])))
    assert rows.of("cat/1.jpg") == slice(0, 1)
    assert rows.of("dog/é.jpg") == slice(3, 4)  # the file has it as two letters


def test_names_may_be_bytes(write):
    assert NamedRows(write(images=np.array([b"cat/1.jpg", b"dog/1.jpg", b"x"]))).of("cat/1.jpg") == slice(0, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("1.jpg", r"a\.npz must have one entry for the image 1\.jpg, but it has cat/1\.jpg and dog/1\.jpg"),
        ("cow/1.jpg", r"a\.npz must have an entry for every image, but it has none for cow/1\.jpg"),
        ("at/1.jpg", "none for at/1"),
        ("deep/cat/1.jpg", "none for deep/cat/1"),  # the file says less: another folder may have a cat/1.jpg too
    ],
)
def test_images_that_are_not_in_the_file_are_refused_by_name(write, name, message):
    with pytest.raises(ValueError, match=message):
        FileFeatures(write()).describe_named(IMAGE, name, boxes(0))


def test_boxes_of_no_row_are_refused(write):
    features = FileFeatures(write())
    with pytest.raises(ValueError, match=r"boxes must be the 2 that .*a\.npz has for dog/1\.jpg, but 1 are requested"):
        features.describe_named(IMAGE, "dog/1.jpg", boxes(1))
    with pytest.raises(ValueError, match=r"a\.npz has for dog/1\.jpg, but boxes\[0\] is \[2\.0.* instead of \[1\.0, 1\.0, 5\.0, 5\.0\]"):
        features.describe_named(IMAGE, "dog/1.jpg", boxes(2, 1))
    with pytest.raises(ValueError, match=r"boxes\[1\]"):
        features.describe_named(IMAGE, "dog/1.jpg", boxes(1, 2) - torch.tensor([[0.0], [0.1]]))


def test_a_name_is_needed(write):
    with pytest.raises(TypeError, match=r"call describe_named\(image, name, boxes\)"):
        FileFeatures(write()).describe(IMAGE, boxes(0))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": None}, r"a\.npz lacks the array 'features'"),
        ({"images": np.arange(3)}, r"a\.npz: images must be names of shape \(n,\), but it is int64"),
        ({"images": ARRAYS["images"][[0, 1, 1]]}, r"images must be different names, but 'dog/1\.jpg' occurs twice"),
        ({"images": ARRAYS["images"][:2]}, "counts must have one entry for each of the 2 images, but it has 3"),
        ({"counts": np.array([1, 2, 3])}, r"a\.npz: counts must sum to boxes\.shape\[0\] = 4, but it sums to 6"),
        ({"boxes": ARRAYS["boxes"][:, [2, 1, 0, 3]]}, r"a\.npz: boxes must have x2 > x1"),
        ({"features": ARRAYS["features"][:3]}, "features must have a row for each of the 4 boxes, but it has 3"),
        ({"features": ARRAYS["features"][:, 0]}, r"features must have shape \(T, d\), but it has shape \(4,\)"),
        ({"features": ARRAYS["features"] * np.float16(np.inf)}, r"a\.npz: features must be finite, but row 0"),
    ],
)
def test_files_of_another_layout_are_refused(write, changed, message):
    with pytest.raises(ValueError, match=message):
        FileFeatures(write(**changed))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.npz does not exist"):
        FileFeatures(tmp_path / "gone.npz")


def test_the_contents_of_the_file_are_in_the_key_and_its_place_is_not(write, tmp_path):
    images = ImageSet([np.zeros((8, 10), np.uint8)], ["cat"], [0])
    keys = [cache_key(images, WindowGrid(), FileFeatures(write()))]
    (tmp_path / "a.npz").rename(tmp_path / "b.npz")
    keys.append(cache_key(images, WindowGrid(), FileFeatures(tmp_path / "b.npz")))
    keys.append(cache_key(images, WindowGrid(), FileFeatures(write(features=ARRAYS["features"] + 1))))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not MAMMALS.is_dir(), reason="LVMDC_DATA holds no mammals")
def test_the_authors_features_of_the_mammals():
    path = MAMMALS / "hog.npz"
    images = folder(MAMMALS / "images")
    proposals, features = FileProposals(path, "windows", outside="clip"), FileFeatures(path, boxes="windows")
    candidates = build_candidates(images, proposals, features, progress=False)
    with np.load(path, allow_pickle=False) as file:
        order = np.argsort(file["images"])
        assert images.names == file["images"][order].tolist()
        assert np.array_equal(candidates.counts, file["counts"][order])
        starts = np.cumsum(file["counts"]) - file["counts"]
        rows = np.concatenate([np.arange(starts[i], starts[i] + file["counts"][i]) for i in order])
        assert np.array_equal(candidates.features.numpy(), file["features"][rows].astype(np.float32))
