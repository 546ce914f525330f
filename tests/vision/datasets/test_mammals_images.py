import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import mammals
from lvmdc.vision.datasets.mammals import NEAR_DUPLICATES, photographs


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    """Blank images with the names of the photographs, large enough for every box."""
    root = tmp_path_factory.mktemp("mammals")
    first = root / "blank.jpg"
    Image.new("L", (640, 430)).save(first)
    for name in photographs():
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(first, root / "images" / name)
    return root


def test_all_photographs_have_their_class_and_box(blank):
    images = mammals(blank)
    assert images.classes == ["bison", "deer", "elephant", "giraffe", "llama", "rhino"]
    assert images.y.bincount().tolist() == [44, 41, 40, 63, 42, 41]
    assert images.boxes[images.names.index("bison/bison_rescaled_0009.jpg")].tolist() == [16, 13, 176, 127]


def test_near_duplicates_stay_on_one_side_of_every_split(blank):
    images = mammals(blank)
    assert len(images.groups.unique()) == 271 - len(NEAR_DUPLICATES)
    for train, _ in (split_by_class(images.y, fold=fold, groups=images.groups) for fold in range(10)):
        chosen = {images.names[i] for i in train}
        assert all((one in chosen) == (other in chosen) for one, other in NEAR_DUPLICATES)


def test_a_table_of_ones_own_replaces_the_boxes(blank, tmp_path):
    rows = [f"{name},{name.partition('/')[0]},1,2,30,40" for name in photographs()]
    (tmp_path / "mine.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *rows]))
    assert torch.equal(mammals(blank, tmp_path / "mine.csv").boxes, torch.tensor([1.0, 2, 30, 40]).expand(271, 4))


def test_a_photograph_missing_or_too_many_is_refused_by_name(blank, tmp_path):
    shutil.copytree(blank / "images", tmp_path / "images")
    extra = tmp_path / "images" / "deer" / "mine.png"
    Image.new("L", (8, 8)).save(extra)
    with pytest.raises(ValueError, match=r"must hold the 271 photographs, but deer/mine\.png is not one of them$"):
        mammals(tmp_path)
    extra.unlink()
    (tmp_path / "images" / "deer" / ".hidden.jpg").write_bytes(b"x")
    (tmp_path / "images" / "deer" / "notes.txt").write_text("x")
    assert len(mammals(tmp_path)) == 271
    for name in ("deer_rescaled_0017.jpg", "deer_rescaled_0030.jpg"):
        (tmp_path / "images" / "deer" / name).unlink()
    with pytest.raises(ValueError, match=r"but deer/deer_rescaled_0017\.jpg is missing, and 1 others$"):
        mammals(tmp_path)


def test_a_missing_folder_is_refused_with_the_way_to_fill_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"images does not exist; `lvmdc prepare mammals` says how to get them"):
        mammals(tmp_path)


DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals"


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not (DATA / "images").is_dir(), reason="LVMDC_DATA holds no mammals/images")
class TestRealPhotographs:
    def test_labels_are_those_of_the_authors_windows(self):
        images = mammals(DATA)
        arrays = np.load(DATA / "hog.npz", allow_pickle=False)
        assert images.names == arrays["images"].tolist()
        assert images.y.tolist() == arrays["labels"].tolist()

    def test_no_two_others_are_the_same_image_scaled(self):
        images = mammals(DATA)
        small = np.stack([np.asarray(images.image(i).convert("L").resize((24, 24), Image.Resampling.BOX), float) for i in range(271)])
        flat = small.reshape(271, -1) - small.mean(axis=(1, 2))[:, None]
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        similar = np.argwhere(np.triu(flat @ flat.T, 1) > 0.95)
        found = {(images.names[i], images.names[j]) for i, j in similar}
        assert len(found) == 4
        assert found <= set(NEAR_DUPLICATES)
