import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lvmdc.vision.proposals import WindowGrid


def blank(width, height):
    return Image.new("RGB", (width, height))


def test_the_embedded_digits_have_25_windows_8_pixels_apart():
    boxes = WindowGrid().boxes(blank(64, 64), "a")
    expected = [[x, y, x + 32, y + 32] for y in range(0, 33, 8) for x in range(0, 33, 8)]
    assert boxes.dtype == torch.float32
    assert boxes.tolist() == expected


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 400),
    height=st.integers(1, 400),
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    stride=st.integers(1, 40),
    scales=st.lists(st.floats(0.3, 3), min_size=1, max_size=3),
    max_boxes=st.integers(3, 400),
)
def test_windows_lie_inside_have_the_size_and_are_not_too_many(width, height, size, stride, scales, max_boxes):
    boxes = WindowGrid(size, stride, scales, max_boxes).boxes(blank(width, height), "a")
    assert 1 <= len(boxes) <= max_boxes
    assert bool((boxes[:, :2] >= 0).all())
    assert bool((boxes[:, 2:] <= torch.tensor([width, height])).all())
    sizes = {(max(1, round(size[0] * s)), max(1, round(size[1] * s))) for s in scales}
    fitting = {(w, h) for w, h in sizes if w <= width and h <= height} or {(width, height)}
    assert {tuple(side) for side in (boxes[:, 2:] - boxes[:, :2]).long().tolist()} == fitting


def test_what_the_stride_leaves_over_is_shared_by_both_edges():
    boxes = WindowGrid(size=(32, 32), stride=8).boxes(blank(70, 32), "a")
    assert boxes[:, 0].tolist() == [3, 11, 19, 27, 35]  # 3 pixels left of the first, 3 right of the last


@pytest.mark.parametrize("size", [(20, 20), (20, 200), (200, 20)])
def test_an_image_smaller_than_a_window_is_its_one_window(size):
    assert WindowGrid().boxes(blank(*size), "a").tolist() == [[0, 0, *size]]


def test_a_large_image_gets_a_larger_stride_and_keeps_its_coverage():
    boxes = WindowGrid(max_boxes=350).boxes(blank(640, 480), "a")
    assert 250 < len(boxes) <= 350
    assert boxes[:, 0].min() < 32
    assert boxes[:, 2].max() > 640 - 32


def test_a_larger_scale_strides_further():
    boxes = WindowGrid(scales=(1, 2)).boxes(blank(128, 64), "a")
    large = boxes[boxes[:, 2] - boxes[:, 0] == 64]
    assert large[:, 0].tolist() == [0, 16, 32, 48, 64]


@pytest.mark.parametrize("changed", [{"size": (0, 3)}, {"stride": 0}, {"scales": ()}, {"scales": (0.0,)}, {"max_boxes": 0}])
def test_settings_that_give_no_windows_are_refused_by_name(changed):
    with pytest.raises(ValueError, match=f"^{next(iter(changed))} must be"):
        WindowGrid(**changed)
