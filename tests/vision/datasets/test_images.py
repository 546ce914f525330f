import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import ImageSet

GREY = [np.full((4, 6), 40 * i, np.uint8) for i in range(4)]
BOXES = torch.tensor([[0.0, 0, 1 + i, 2] for i in range(4)])


def make(**changed):
    arguments = {"sources": GREY, "classes": ["a", "b"], "y": [0, 1, 1, 0], "boxes": BOXES, "groups": [3, 3, 4, 5]}
    return ImageSet(**(arguments | changed))


def test_a_set_gives_every_part_of_its_interface():
    images = make(names=["w", "x", "y", "z"])
    assert len(images) == 4
    assert images.classes == ["a", "b"]
    assert images.names == ["w", "x", "y", "z"]
    assert images.y.dtype == images.groups.dtype == torch.long
    assert images.boxes.dtype == torch.float32
    assert images.image(2).mode == "RGB"
    assert images.image(2).getpixel((0, 0)) == (80, 80, 80)


@pytest.mark.parametrize("index", [[2, 0], torch.tensor([2, 0]), np.array([2, 0])])
def test_a_subset_takes_every_part_in_the_order_asked_for(index):
    images = make(objects=[BOXES[: i + 1] for i in range(4)])
    part = images.subset(index)
    assert part.y.tolist() == [1, 0]
    assert part.names == ["image 2", "image 0"]
    assert part.groups.tolist() == [4, 3]
    assert torch.equal(part.boxes, BOXES[[2, 0]])
    assert [len(o) for o in part.objects] == [3, 1]
    assert part.digest(0) == images.digest(2)


def test_a_subset_by_mask_is_that_of_its_places():
    assert make().subset(torch.tensor([False, True, False, True])).names == ["image 1", "image 3"]
    with pytest.raises(ValueError, match="mask must have one entry"):
        make().subset([True, False])


def test_files_are_opened_only_when_asked_for(tmp_path):
    images = make(sources=[tmp_path / f"{i}.png" for i in range(4)])
    Image.fromarray(GREY[1]).save(tmp_path / "1.png")
    assert images.image(1).size == (6, 4)
    with pytest.raises(FileNotFoundError, match=r"0\.png"):
        images.image(0)


def test_digests_tell_images_apart_by_pixels_and_shape(tmp_path):
    flat = [np.zeros((2, 6), np.uint8), np.zeros((6, 2), np.uint8), np.zeros((2, 6), np.uint8)]
    a, b, c = (ImageSet(flat, ["a"], [0, 0, 0]).digest(i) for i in range(3))
    assert a == c != b
    Image.fromarray(GREY[0]).save(tmp_path / "0.png")
    images = ImageSet([tmp_path / "0.png"], ["a"], [0])
    before = images.digest(0)
    Image.fromarray(GREY[1]).save(tmp_path / "0.png")
    assert images.digest(0) != before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sources": []}, "at least one image"),
        ({"sources": [np.zeros((4, 6), np.float32)] * 4}, r"sources\[0\] must be uint8"),
        ({"sources": [np.zeros((4, 6, 4), np.uint8)] * 4}, r"sources\[0\] must be uint8"),
        ({"y": [0, 1, 2, 0]}, r"y\[2\] must lie in 0\.\.1"),
        ({"y": [0, -1, 1, 0]}, r"y\[1\] must lie in 0\.\.1"),
        ({"y": [0, 1, 1]}, r"y must be integers of shape \(4,\)"),
        ({"y": [0.0, 1.0, 1.0, 0.0]}, "y must be integers"),
        ({"names": ["a"]}, "names must have one entry for each of the 4 images"),
        ({"groups": [0, 1]}, "groups must be integers"),
        ({"boxes": BOXES[:3]}, r"boxes must have shape \(4, 4\)"),
        ({"boxes": BOXES * torch.nan}, r"boxes\[0\] is \[nan"),
        ({"boxes": BOXES[:, [2, 1, 0, 3]]}, r"x2 > x1 and y2 > y1, but boxes\[0\]"),
        ({"objects": [BOXES]}, "objects must have one entry"),
        ({"objects": [BOXES, BOXES, BOXES[:, :3], BOXES]}, r"objects\[2\] must have shape \(k, 4\)"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        make(**changed)
