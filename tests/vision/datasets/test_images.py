import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc import LabelledBoxes
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import ImageSet, cluttered_digits

GREY = [np.full((4, 6), 40 * i, np.uint8) for i in range(4)]
BOXES = torch.tensor([[0.0, 0, 1 + i, 2] for i in range(4)])


def make(**changed):
    arguments = {"sources": GREY, "classes": ["a", "b"], "labels": [0, 1, 1, 0], "boxes": BOXES, "groups": [3, 3, 4, 5]}
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
        ({"labels": [0, 1, 2, 0]}, r"labels\[2\] must lie in 0\.\.1"),
        ({"labels": [0, -1, 1, 0]}, r"labels\[1\] must lie in 0\.\.1"),
        ({"labels": [0, 1, 1]}, r"labels must be integers of shape \(4,\)"),
        ({"labels": [0.0, 1.0, 1.0, 0.0]}, "labels must be integers"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [[1]]}, r"labels must have shape \(2, 1\)"),
        ({"labels": [[1], [2]]}, "labels must hold 1, 0 and"),
        ({"labels": [[1], [1]], "boxes": LabelledBoxes([2], [0], [[0, 0, 1, 1]])}, "an image or class beyond them"),
        ({"labels": [[1], [1]], "boxes": [[0, 0, 1, 1]] * 2}, "these images have several labels each"),
        ({"labels": [[1], [1]], "division": [0]}, "division must have one entry for each of the 2 images"),
    ],
)
def test_labels_of_several_classes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImageSet(GREY[:2], ["cat"], **arguments)


def test_labels_are_those_of_the_boxes_or_unknown_where_not_given():
    truth = LabelledBoxes([0, 1], [1, 0], [[0, 0, 1, 1]] * 2, difficult=[False, True])
    assert ImageSet(GREY[:2], ["a", "b"], boxes=truth).labels.tolist() == [[-1, 1], [0, -1]]
    assert ImageSet(GREY[:2], ["a", "b"]).labels.tolist() == [[0, 0], [0, 0]]


def test_an_image_of_one_class_shows_it_and_no_other_where_its_box_is():
    images = cluttered_digits(per_class=5)
    for i in range(len(images)):
        assert images.shown(i) == [images.classes[int(images.y[i])]]
        assert images.truth.of_image(i).box.tolist() == [images.boxes[i].tolist()]
        assert images.truth.of_image(i).label.tolist() == [int(images.y[i])]
    assert set(images.table.unique().tolist()) == {-1, 1}


@pytest.mark.parametrize("fold", [0, 3])
def test_near_duplicates_are_split_to_one_side(fold):
    y, groups = [0] * 10 + [1] * 10, [*range(8), 7, 7, *range(20, 30)]
    images = ImageSet([GREY[0]] * 20, ["cat", "dog"], y, groups=groups)
    train, test = images.split(fraction=0.5, fold=fold, seed=1)
    expected = split_by_class(torch.tensor(y), 0.5, fold, 1, groups)
    assert (train.tolist(), test.tolist()) == tuple(part.tolist() for part in expected)
    assert len({i in train.tolist() for i in (7, 8, 9)}) == 1


def test_images_that_came_divided_stay_so_and_a_class_must_be_in_both_parts():
    images = ImageSet(GREY[:3], ["cat"], [[1], [1], [-1]], division=[1, 0, 1])
    assert [part.tolist() for part in images.split()] == [[1], [0, 2]]
    with pytest.raises(ValueError, match="the training part has no image that shows 'cat'"):
        ImageSet(GREY[:2], ["cat"], [[-1], [1]], division=[0, 1]).split()
    with pytest.raises(ValueError, match="fraction must lie between"):
        ImageSet(GREY[:2], ["cat"], [[1], [1]]).split(fraction=1.0)
