import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import ImageSet, mammals
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.proposals import FileProposals, save_proposals

PICTURE = Image.new("RGB", (8, 6))
BOXES = {"cat/1.jpg": [[0.0, 0, 8, 6]], "dog/1.jpg": [[1.0, 1, 3, 3], [2, 2, 8, 5.5]]}


@pytest.fixture
def path(tmp_path):
    save_proposals(tmp_path / "boxes.npz", list(BOXES), [torch.tensor(boxes) for boxes in BOXES.values()])
    return tmp_path / "boxes.npz"


def images(*names):
    return ImageSet([np.zeros((6, 8), np.uint8)] * len(names), ["pet"], [0] * len(names), names=names)


def test_boxes_come_back_as_they_were_saved(path):
    proposals = FileProposals(path)
    for name, boxes in BOXES.items():
        assert proposals.boxes(PICTURE, name).tolist() == boxes


def test_an_array_may_have_another_name_and_numpy_alone_can_write_it(tmp_path):
    np.savez(tmp_path / "a.npz", images=["images/cat/1.jpg"], counts=[1], windows=[[0, 1, 2, 3]], boxes=[[9]])
    assert FileProposals(tmp_path / "a.npz", boxes="windows").boxes(PICTURE, "cat/1.jpg").tolist() == [[0, 1, 2, 3]]


def test_an_image_that_the_file_does_not_have_is_refused_before_any_work(path):
    assert len(FileProposals.for_images(images("dog/1.jpg"), path=path).boxes(PICTURE, "dog/1.jpg")) == 2
    with pytest.raises(ValueError, match=r"boxes\.npz must have an entry for every image, but it has none for cat/2\.jpg"):
        FileProposals.for_images(images("cat/1.jpg", "cat/2.jpg"), path=path)
    with pytest.raises(ValueError, match=r"none for fish\.jpg"):
        FileProposals(path).boxes(PICTURE, "fish.jpg")


def test_boxes_out_of_the_image_are_refused_or_cut_off(path):
    small = Image.new("RGB", (6, 4))
    message = r"boxes of dog/1\.jpg must lie inside the image, which is 6 by 4 pixels, but one is 2, 2, 8, 5\.5; outside=clip cuts it"
    with pytest.raises(ValueError, match=message):
        FileProposals(path).boxes(small, "dog/1.jpg")
    assert FileProposals(path, outside="clip").boxes(small, "dog/1.jpg").tolist() == [[1, 1, 3, 3], [2, 2, 6, 4]]
    with pytest.raises(ValueError, match=r"which is 2 by 2 pixels, but one is 2, 2, 8, 5\.5$"):
        FileProposals(path, outside="clip").boxes(Image.new("RGB", (2, 2)), "dog/1.jpg")
    with pytest.raises(ValueError, match="outside must be one of refuse, clip, but it is 'keep'"):
        FileProposals(path, outside="keep")


def test_files_that_do_not_fit_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz does not exist"):
        FileProposals(tmp_path / "none.npz")
    np.savez(tmp_path / "a.npz", images=["a", "b"], counts=[1], boxes=[[0, 0, 1, 1]])
    with pytest.raises(ValueError, match=r"a\.npz: counts must have one entry for each of the 2 images, but it has 1"):
        FileProposals(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz lacks the array 'windows'"):
        FileProposals(tmp_path / "a.npz", boxes="windows")
    with pytest.raises(ValueError, match="boxes must have one entry for each of the 2 names, at least one, but it has 0"):
        save_proposals(tmp_path / "b.npz", ["a", "b"], [])


def test_the_cache_follows_the_content_of_the_file_not_its_place(path, tmp_path):
    before = FileProposals(path).settings()
    moved = path.rename(tmp_path / "moved.npz")
    assert FileProposals(moved).settings() == before
    save_proposals(moved, ["cat/1.jpg"], [torch.tensor([[0.0, 0, 8, 5]])])
    assert FileProposals(moved).settings() != before
    assert FileProposals(moved).settings() != FileProposals(moved, outside="clip").settings()


DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals"


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not (DATA / "hog.npz").is_file(), reason="LVMDC_DATA holds no mammals/hog.npz")
def test_pixels_of_the_authors_windows_can_be_described():
    photographs = mammals(DATA).subset([0, 100, 160])
    proposals = FileProposals.for_images(photographs, path=DATA / "hog.npz", boxes="windows", outside="clip")
    candidates = build_candidates(photographs, proposals, HOG(size=(64, 48)), progress=False)
    arrays = np.load(DATA / "hog.npz", allow_pickle=False)
    assert candidates.counts.tolist() == arrays["counts"][[0, 100, 160]].tolist()
    assert candidates.features.abs().sum(dim=1).min() > 0
    sizes = torch.tensor([photographs.image(i).size * 2 for i in range(3)])
    assert (candidates.boxes <= sizes[candidates.sample]).all()
    with pytest.raises(ValueError, match="outside=clip"):
        FileProposals(DATA / "hog.npz", boxes="windows").boxes(photographs.image(0), photographs.names[0])
