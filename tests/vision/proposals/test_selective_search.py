import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.ops import box_iou

from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.proposals import SelectiveSearch


def scene(width=120, height=90):
    """A red block and a blue one on grey noise."""
    pixels = np.random.default_rng(0).integers(100, 120, (height, width, 3), np.uint8)
    pixels[20:70, 10:50] = (200, 30, 30)
    pixels[30:60, 70:110] = (30, 30, 200)
    return Image.fromarray(pixels)


def test_things_that_stand_out_are_found():
    boxes = SelectiveSearch().boxes(scene(), "a")
    found = box_iou(torch.tensor([[10.0, 20, 50, 70], [70, 30, 110, 60]]), boxes).amax(dim=1)
    assert found.min() > 0.8


def test_boxes_are_inside_distinct_and_the_largest_come_first():
    boxes = SelectiveSearch(min_size=0.2, overlap=0.6).boxes(scene(), "a")
    side = boxes[:, 2:] - boxes[:, :2]
    assert boxes.dtype == torch.float32
    assert boxes.min() >= 0
    assert (boxes <= torch.tensor([120.0, 90, 120, 90])).all()
    assert side.min() >= 0.2 * 90
    assert (side.prod(dim=1).diff() <= 0).all()
    assert box_iou(boxes, boxes).fill_diagonal_(0).max() <= 0.6
    assert torch.equal(SelectiveSearch(max_boxes=2, min_size=0.2, overlap=0.6).boxes(scene(), "a"), boxes[:2])


def test_every_call_gives_the_same_boxes():
    images = cluttered_digits(per_class=1)
    search = SelectiveSearch(size=96)
    first = [search.boxes(images.image(i), "") for i in range(6)]
    again = [SelectiveSearch(size=96).boxes(images.image(i), "other") for i in range(6)]
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert len({len(boxes) for boxes in first}) > 1


@pytest.mark.parametrize("size", [(1, 1), (300, 1), (2, 40)])
def test_an_image_without_regions_is_one_box(size):
    assert SelectiveSearch(size=64, mode="single").boxes(Image.new("RGB", size), "a").tolist() == [[0, 0, *size]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_boxes": 0}, "max_boxes must be at least 1, but it is 0"),
        ({"min_size": 1.0}, r"min_size must lie in \[0, 1\), a share of the image's shorter side, but it is 1\.0"),
        ({"overlap": 0.0}, r"overlap must lie in \(0, 1\], but it is 0\.0"),
        ({"size": 8}, "size must be at least 16 pixels, but it is 8"),
        ({"mode": "best"}, "mode must be one of single, fast, quality, but it is 'best'"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        SelectiveSearch(**changed)


def test_settings_hold_all_that_the_boxes_depend_on():
    settings = [
        SelectiveSearch(**changed).settings() for changed in ({}, {"max_boxes": 5}, {"min_size": 0.3}, {"size": 50}, {"mode": "single"})
    ]
    assert len({str(one) for one in settings}) == 5
