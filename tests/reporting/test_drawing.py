import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc.reporting import draw_detection
from lvmdc.reporting.drawing import CASING, PREDICTED, TRUTH
from lvmdc.vision.datasets import cluttered_digits

GREY = (90, 90, 90)


def grey(width=64, height=64):
    return Image.new("RGB", (width, height), GREY)


def count(image, colour):
    return int((np.asarray(image) == colour).all(axis=2).sum())


def border(image, box):
    """Colours of the pixels on the border of a box (x1, y1, x2, y2), the last pixels excluded."""
    x1, y1, x2, y2 = box
    across = [image.getpixel((x, y)) for x in range(x1, x2) for y in (y1, y2 - 1)]
    return across + [image.getpixel((x, y)) for y in range(y1, y2) for x in (x1, x2 - 1)]


@pytest.mark.parametrize(
    ("shape", "drawn"), [((64, 48), (256, 192)), ((48, 64), (192, 256)), ((1000, 500), (256, 128)), ((900, 1), (256, 1))]
)
def test_the_longer_side_is_size(shape, drawn):
    assert draw_detection(grey(*shape)).size == drawn


def test_the_true_box_is_dashed_green_on_dark_along_its_border_and_nowhere_else():
    image = draw_detection(grey(), truth=[16, 24, 48, 56])
    colours = border(image, (64, 96, 192, 224))
    assert set(colours) == {TRUTH, CASING}
    assert 0.4 < colours.count(TRUTH) / len(colours) < 0.65
    inside, outside = image.crop((70, 102, 186, 218)), image.crop((0, 0, 256, 90))
    assert count(inside, GREY) == 116 * 116
    assert count(outside, GREY) == 256 * 90


def test_the_predicted_box_is_solid_orange_along_its_border():
    image = draw_detection(grey(), predicted=[16, 24, 48, 56])
    assert set(border(image, (64, 96, 192, 224))) == {PREDICTED}
    assert count(image, TRUTH) == 0


def test_boxes_that_agree_both_show():
    colours = border(draw_detection(grey(), predicted=[16, 24, 48, 56], truth=[16, 24, 48, 56]), (64, 96, 192, 224))
    assert set(colours) == {TRUTH, PREDICTED}


def test_green_and_orange_differ_in_lightness_for_those_who_see_no_hue():
    grey_levels = [np.dot(colour, (0.299, 0.587, 0.114)) for colour in (TRUTH, PREDICTED)]
    assert all(level - np.dot(CASING, (0.299, 0.587, 0.114)) > 100 for level in grey_levels)  # both stand out of their casing


def test_a_box_that_reaches_beyond_the_image_is_drawn_along_its_edge():
    image = draw_detection(grey(), predicted=[-10, 16, 100, 70])
    assert image.getpixel((0, 128)) == image.getpixel((255, 128)) == image.getpixel((128, 255)) == PREDICTED


def test_a_tick_and_a_cross_differ_and_stand_above_the_box():
    none, right, wrong = (draw_detection(grey(), predicted=[16, 24, 48, 56], correct=c) for c in (None, True, False))
    pixels = [np.asarray(p) for p in (none, right, wrong)]
    assert not np.array_equal(pixels[1], pixels[2])
    for marked in pixels[1:]:
        assert np.array_equal(marked[100:], pixels[0][100:])  # nothing inside the box is hidden


def test_a_box_at_the_top_has_its_badge_inside():
    assert count(draw_detection(grey(), predicted=[0, 0, 32, 32], correct=True).crop((4, 4, 15, 15)), PREDICTED) > 20


def test_heat_is_stronger_where_the_box_is_likelier():
    boxes, posterior = torch.tensor([[0.0, 0, 20, 20], [40, 40, 60, 60]]), torch.tensor([0.9, 0.1])
    image = draw_detection(grey(), boxes=boxes, posterior=posterior)
    likely, unlikely, outside = (np.array(image.getpixel(place), float) for place in ((40, 40), (200, 200), (200, 40)))
    assert tuple(outside) == GREY
    assert np.linalg.norm(likely - outside) > 2 * np.linalg.norm(unlikely - outside) > 20
    assert likely[0] - likely[1] > unlikely[0] - unlikely[1]  # and redder


@pytest.mark.parametrize("caption", ["", "deer 0.7"])
def test_the_posterior_does_not_change_the_shape(caption):
    boxes, posterior = torch.tensor([[0.0, 0, 20, 20], [40, 40, 60, 60]]), torch.tensor([0.9, 0.1])
    plain = draw_detection(grey(64, 50), truth=[1, 2, 30, 40], caption=caption)
    assert draw_detection(grey(64, 50), truth=[1, 2, 30, 40], boxes=boxes, posterior=posterior, caption=caption).size == plain.size


def test_the_caption_is_a_strip_below_that_leaves_the_image_alone():
    bare, captioned = draw_detection(grey(), [8, 8, 30, 30]), draw_detection(grey(), [8, 8, 30, 30], caption="deer, wrong")
    assert captioned.width == bare.width
    assert captioned.height > bare.height
    assert np.array_equal(np.asarray(captioned)[:256], np.asarray(bare))
    assert np.asarray(captioned)[256:].min() < 60  # ink
    longer = draw_detection(grey(), [8, 8, 30, 30], caption="deer " * 100)
    assert captioned.height < longer.height < 340


def test_a_narrow_image_has_a_caption_that_can_be_read():
    assert draw_detection(grey(4, 64), caption="a deer").width > 100


def test_the_input_is_not_changed():
    image = grey()
    draw_detection(image, predicted=[1, 1, 30, 30], boxes=[[0, 0, 9, 9]], posterior=[1.0], caption="a")
    assert count(image, GREY) == 64 * 64


def test_grey_palette_and_transparent_images_are_taken():
    for mode in ("L", "P", "RGBA", "1"):
        assert draw_detection(Image.new(mode, (64, 64)), truth=[1, 1, 30, 30]).mode == "RGB"


def test_a_real_image_with_candidates_of_any_dtype():
    images = cluttered_digits(per_class=1)
    drawn = draw_detection(images.image(0), images.boxes[0].double().numpy(), images.boxes[0], images.boxes.half(), np.ones(6) / 6)
    assert drawn.size == (256, 256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predicted": [1, 2, 3]}, r"predicted must have shape \(4,\), but it has shape \(3,\)"),
        ({"truth": [5, 5, 5, 9]}, "truth must be finite with x2 > x1"),
        ({"predicted": [0, 0, float("nan"), 9]}, "predicted must be finite"),
        ({"boxes": [[0, 0, 1, 1]]}, "belong together"),
        ({"boxes": [0, 0, 1, 1], "posterior": [1.0]}, r"boxes must have shape \(m, 4\)"),
        ({"boxes": [[0, 0, 1, 1]], "posterior": [0.5, 0.5]}, r"posterior must have shape \(1,\)"),
        ({"boxes": [[0, 0, 1, 1]], "posterior": [float("nan")]}, r"posterior\[0\] is nan"),
        ({"boxes": [[0, 0, 1, 1]], "posterior": [0.0]}, "positive sum"),
        ({"size": 3}, "size must be at least 16"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_detection(grey(), **arguments)
