"""Boxes, classes and the posterior on images; sheets of images with a legend."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from PIL import Image

from lvmdc import LabelledBoxes
from lvmdc.reporting import contact_sheet, draw_detection, draw_legend, draw_scene
from lvmdc.reporting.drawing import GROUND, PREDICTED, TRUTH, coverage, heat_map, text_width, wrapped
from lvmdc.reporting.figures import style
from lvmdc.vision.datasets import cluttered_digits

GREY = (90, 90, 90)
FOUND = LabelledBoxes([0, 0], [0, 1], [[4, 20, 24, 40], [34, 20, 60, 60]], score=[1.5, 0.5])


def grey(width=64, height=64):
    return Image.new("RGB", (width, height), GREY)


def rgb(colour):
    return tuple(round(255 * v) for v in to_rgb(colour))


def is_colour(pixels, colour):
    """Where pixels have the colour, but for the smoothing of edges."""
    return np.abs(np.asarray(pixels, int) - rgb(colour)).max(axis=-1) < 40


def count(image, colour):
    return int(is_colour(image, colour).sum())


def border(image, box):
    """Pixels along the border of a box (x1, y1, x2, y2), one in from its edge, without the corners."""
    x1, y1, x2, y2 = box
    across = [image.getpixel((x, y)) for x in range(x1 + 4, x2 - 4) for y in (y1 + 1, y2 - 2)]
    return across + [image.getpixel((x, y)) for y in range(y1 + 4, y2 - 4) for x in (x1 + 1, x2 - 2)]


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [((64, 48), (256, 192)), ((48, 64), (192, 256)), ((1000, 500), (256, 128)), ((900, 1), (256, 1)), ((113, 64), (256, 145))],
)
def test_the_longer_side_is_size(shape, drawn):
    assert draw_detection(grey(*shape)).size == drawn


def test_without_boxes_the_image_is_unchanged():
    image = cluttered_digits(per_class=1).image(0)
    assert draw_detection(image, size=max(image.size)).tobytes() == image.convert("RGB").tobytes()


def test_the_true_box_is_dashed_on_dark_along_its_border_and_nowhere_else():
    image = draw_detection(grey(), truth=[16, 24, 48, 56])
    pixels = border(image, (64, 96, 192, 224))
    assert 0.4 < is_colour(pixels, TRUTH).mean() < 0.7
    assert is_colour(pixels, GROUND).mean() > 0.2
    assert count(image, PREDICTED) == 0
    inside, outside = image.crop((70, 102, 186, 218)), image.crop((0, 0, 256, 90))
    assert (np.asarray(inside) == GREY).all()
    assert (np.asarray(outside) == GREY).all()


def test_the_predicted_box_is_solid_along_its_border():
    image = draw_detection(grey(), predicted=[16, 24, 48, 56])
    assert is_colour(border(image, (64, 96, 192, 224)), PREDICTED).all()
    assert count(image, TRUTH) == 0


def test_boxes_that_agree_both_show():
    pixels = border(draw_detection(grey(), predicted=[16, 24, 48, 56], truth=[16, 24, 48, 56]), (64, 96, 192, 224))
    assert is_colour(pixels, TRUTH).mean() > 0.3
    assert is_colour(pixels, PREDICTED).mean() > 0.2


def test_both_colours_stand_out_from_their_dark_ground_for_those_who_see_no_hue():
    levels = [np.dot(rgb(colour), (0.299, 0.587, 0.114)) for colour in (TRUTH, PREDICTED, GROUND)]
    assert min(levels[:2]) - levels[2] > 100


def test_a_box_that_reaches_beyond_the_image_is_drawn_along_its_edge():
    image = draw_detection(grey(), predicted=[-10, 16, 100, 70])
    assert is_colour([image.getpixel(place) for place in ((1, 128), (254, 128), (128, 254))], PREDICTED).all()


def test_a_tick_and_a_cross_differ_and_stand_above_the_box():
    none, right, wrong = (np.asarray(draw_detection(grey(), predicted=[16, 24, 48, 56], correct=c)) for c in (None, True, False))
    assert not np.array_equal(right, wrong)
    for marked in (right, wrong):
        assert np.array_equal(marked[100:], none[100:])  # nothing inside the box is hidden


def test_a_box_at_the_top_has_its_mark_inside():
    assert count(draw_detection(grey(), predicted=[0, 0, 32, 32], correct=True).crop((4, 4, 15, 15)), PREDICTED) > 20


def test_coverage_is_the_sum_of_the_probabilities_of_the_boxes_over_a_pixel():
    generator = torch.Generator().manual_seed(0)
    corner = 40 * torch.rand(30, 2, generator=generator) - 5
    boxes = torch.cat([corner, corner + 1 + 20 * torch.rand(30, 2, generator=generator)], dim=1)
    p = torch.rand(30, generator=generator)
    brute = np.zeros((90, 110))
    for (x1, y1, x2, y2), weight in zip((boxes * 2.5).round().int().tolist(), (p.double() / p.double().sum()).tolist(), strict=True):
        brute[max(y1, 0) : max(y2, 0), max(x1, 0) : max(x2, 0)] += weight
    assert np.allclose(coverage(boxes, p, (110, 90), 2.5), brute)


def test_coverage_is_a_probability():
    boxes = torch.tensor([[0.0, 0, 3, 3]]).repeat(1000, 1)
    values = coverage(boxes, torch.full((1000,), 0.1), (4, 4))
    assert values.min() == 0
    assert np.isclose(values.max(), 1)


def test_the_heat_map_gets_evenly_lighter_and_more_opaque():
    colours = heat_map(np.linspace(0, 1, 50)).astype(int)
    linear = (colours[:, :3] / 255) ** 2.2
    lightness = 116 * np.cbrt(linear @ (0.2126, 0.7152, 0.0722)) - 16
    assert (np.diff(lightness) > 0).all()
    assert np.diff(lightness).max() < 3 * np.diff(lightness).mean()
    assert colours[0, 3] == 0
    assert (np.diff(colours[:, 3]) > 0).all()


def test_heat_is_stronger_where_the_box_is_likelier():
    boxes, posterior = torch.tensor([[0.0, 0, 20, 20], [40, 40, 60, 60]]), torch.tensor([0.9, 0.1])
    image = draw_detection(grey(), boxes=boxes, posterior=posterior)
    likely, unlikely, outside = (np.array(image.getpixel(place), float) for place in ((40, 40), (200, 200), (250, 20)))
    assert tuple(outside) == GREY
    assert np.linalg.norm(likely - outside) > 1.5 * np.linalg.norm(unlikely - outside) > 10
    assert likely[0] - likely[2] > unlikely[0] - unlikely[2]  # and yellower


def test_heat_has_no_steps():
    boxes, posterior = torch.tensor([[0.0, 0, 30, 64], [20, 0, 50, 64]]), torch.tensor([0.5, 0.5])
    line = np.asarray(draw_detection(grey(), boxes=boxes, posterior=posterior), int)[128]
    steps = np.abs(np.diff(line, axis=0)).max(axis=1)
    assert np.abs(line - GREY).max() > 10
    assert steps.max() <= 6


@pytest.mark.parametrize("caption", ["", "deer 0.7"])
def test_the_posterior_does_not_change_the_shape(caption):
    boxes, posterior = torch.tensor([[0.0, 0, 20, 20], [40, 40, 60, 60]]), torch.tensor([0.9, 0.1])
    plain = draw_detection(grey(64, 50), truth=[1, 2, 30, 40], caption=caption)
    assert draw_detection(grey(64, 50), truth=[1, 2, 30, 40], boxes=boxes, posterior=posterior, caption=caption).size == plain.size


def test_the_caption_is_a_strip_below_that_leaves_the_image_unchanged():
    bare, captioned = draw_detection(grey(), [8, 8, 30, 30]), draw_detection(grey(), [8, 8, 30, 30], caption="deer, wrong")
    assert captioned.width == bare.width
    assert captioned.height > bare.height
    assert np.array_equal(np.asarray(captioned)[:256], np.asarray(bare))
    assert np.asarray(captioned)[256:].min() < 60  # ink
    longer = draw_detection(grey(), [8, 8, 30, 30], caption="deer " * 100)
    assert captioned.height < longer.height < 340


@pytest.mark.parametrize("caption", ["élan ελάφι олень", "鹿", "हिरण غزال", "a\nb\x1b[31m\udc80", "$x_1$ \\frac", "   "])
def test_captions_in_any_script_are_drawn_without_warnings(caption, recwarn):
    strip = np.asarray(draw_detection(grey(), caption=caption))[256:]
    assert (strip.min() < 100) == bool(caption.strip())
    assert not recwarn.list


@pytest.mark.parametrize(
    "text", ["deer", "a deer in the woods by night", "x" * 300, "one " + "y" * 200, "鹿" * 50], ids=lambda text: text[:3]
)
@pytest.mark.parametrize("width", [40, 100, 400])
def test_lines_are_no_wider_than_allowed_and_keep_all_letters_that_fit(text, width):
    lines = wrapped(text, width, 12)
    assert 1 <= len(lines) <= 3
    with style():
        assert all(text_width(line, 12) <= width for line in lines)
    assert lines[-1].endswith("…") or "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_narrow_image_has_a_readable_caption():
    assert draw_detection(grey(4, 64), caption="a deer").width > 100


def test_the_input_is_not_changed():
    image = grey()
    draw_detection(image, predicted=[1, 1, 30, 30], boxes=[[0, 0, 9, 9]], posterior=[1.0], caption="a")
    assert (np.asarray(image) == GREY).all()


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
        ({"boxes": [[0, 0, 1, 1]], "posterior": [float("nan")]}, "posterior must be finite and not negative, but it holds nan"),
        ({"boxes": [[0, 0, 1, 1]], "posterior": [-1.0]}, "posterior must be finite and not negative"),
        ({"boxes": [[0, 0, 1, 1]], "posterior": [0.0]}, "positive sum"),
        ({"size": 3}, "size must be at least 16"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_detection(grey(), **arguments)


def test_predicted_and_true_boxes_of_a_scene_are_drawn_where_they_are():
    drawn = draw_scene(grey(), FOUND, ["cat", "dog"], LabelledBoxes([0], [0], [[4, 2, 24, 12]]))
    assert is_colour([drawn.getpixel((17, 120)), drawn.getpixel((137, 200))], PREDICTED).all()  # the left sides of both
    assert count(drawn, TRUTH) > 50
    assert count(draw_scene(grey(), FOUND, ["cat", "dog"]), TRUTH) == 0


def test_a_box_of_a_scene_has_its_class_and_score_above_it_or_inside_at_the_edge():
    one, bare = (LabelledBoxes([0], [0], [[4, 30, 24, 60]], score=score) for score in ([1.5], None))
    scored, plain = (draw_scene(grey(), found, ["cat"]) for found in (one, bare))
    assert count(scored, PREDICTED) > count(plain, PREDICTED)
    assert count(scored.crop((0, 0, 256, 116)), PREDICTED) > 50  # above the box
    edge = LabelledBoxes([0], [0], [[0, 0, 64, 64]], score=[-12.25])
    assert draw_scene(grey(), edge, ["a class with a long name"]).size == (256, 256)


def test_a_scene_without_objects_is_the_image_and_its_caption():
    nothing = FOUND[FOUND.label > 1]
    assert (np.asarray(draw_scene(grey(), nothing, ["cat", "dog"])) == GREY).all()
    assert draw_scene(grey(), nothing, ["cat", "dog"], caption="0 objects").height > 256
    with pytest.raises(ValueError, match="size must be at least 16"):
        draw_scene(grey(), nothing, ["cat"], size=4)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 9])
def test_every_image_is_on_the_sheet_whole(columns):
    sizes = [(40, 30), (30, 50), (60, 20), (40, 40), (20, 20)]
    images = [Image.new("RGB", size, (i + 1, 0, 0)) for i, size in enumerate(sizes)]
    sheet = np.asarray(contact_sheet(images, columns=columns))
    for i, (width, height) in enumerate(sizes):
        assert (sheet == (i + 1, 0, 0)).all(axis=2).sum() == width * height


def test_the_legend_shows_both_lines_and_fits_the_width():
    for width in (320, 500, 2000):
        legend = draw_legend(width)
        assert legend.width == width
        assert count(legend, GROUND) > 10
        assert count(legend, PREDICTED) > 10
        assert (np.asarray(legend)[:, -2:] == 255).all()  # nothing is cut off
    assert draw_legend(320, ("truth", "predicted")).height < draw_legend(320).height


def test_a_sheet_may_have_no_legend():
    bare, full = contact_sheet([grey(300, 40)], legend=False), contact_sheet([grey(300, 40)])
    assert count(bare, PREDICTED) == 0 < count(full, PREDICTED)
    assert full.height > bare.height


def test_an_empty_sheet_is_refused():
    with pytest.raises(ValueError, match="images must hold at least one"):
        contact_sheet([])
    with pytest.raises(ValueError, match="columns must be at least 1"):
        contact_sheet([grey()], columns=0)
