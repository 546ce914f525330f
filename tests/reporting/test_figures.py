"""Line charts: every value is shown or counted, and lines differ without colour."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from lvmdc.reporting import line_chart
from lvmdc.reporting.figures import COLOURS, LARGEST, MOST_MARKERS, as_image, inline_svg, save_figure


def drawn(values, **options):
    """The values of the line of a chart, and the label of its x axis."""
    axes = line_chart({"a": values}, list(range(len(values))), "T", "v", **options).axes[0]
    return axes.lines[0].get_ydata(), axes.get_xlabel()


def test_every_value_is_a_point_of_its_line_and_every_series_in_the_legend():
    chart = line_chart({"a": [3.0, 2.0, 1.0], "b": [1.0, 1.0, 2.0]}, [1, 2, 3], "Title", "value")
    (axes,) = chart.axes
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[1, 3], [2, 2], [3, 1]], [[1, 1], [2, 1], [3, 2]]]
    assert [text.get_text() for text in chart.legends[0].get_texts()] == ["a", "b"]
    assert (axes.get_title("left"), axes.get_ylabel(), axes.get_xlabel()) == ("Title", "value", "iteration")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_value_that_is_not_finite_is_a_gap_and_is_counted(bad):
    values, label = drawn([3.0, 2.0, bad, 1.0])
    assert np.isnan(values).tolist() == [False, False, True, False]
    assert label == "iteration (1 left out: not finite)"


def test_a_logarithmic_axis_leaves_out_what_is_not_positive():
    values, label = drawn([100.0, 10.0, 0.0, -1.0], log=True)
    assert np.isnan(values).tolist() == [False, False, True, True]
    assert label == "iteration (2 left out: not finite or ≤ 0)"


def test_the_line_joins_the_values_that_were_measured():
    chart = line_chart({"val_loss": [3.0, None, None, 1.0, None]}, list(range(5)), "T", "v")
    assert chart.axes[0].lines[0].get_xydata().tolist() == [[0, 3], [3, 1]]
    assert chart.axes[0].get_xlabel() == "iteration"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values",
    [[1.5], [0.0], [-2.0], [7.0, 7.0], [1e-190, 1e190], [], [math.nan], [1e15, 1e15 + 1], [-1e-12, 1e-12], [5e-324], [1e308, -1e308, 1.0]],
)
def test_odd_histories_give_a_chart(values, log):
    chart = line_chart({"a": values}, list(range(len(values))), "T", "v", log=log)
    shown = [v for v in values if abs(v) < LARGEST and (v > 1 / LARGEST or not log)]
    assert np.isfinite(chart.axes[0].lines[0].get_ydata()).sum() == len(shown)
    assert ("nothing to show" in [text.get_text() for text in chart.axes[0].texts]) == (not shown)
    assert np.asarray(as_image(chart).convert("L")).min() < 100  # something is drawn


def test_markers_appear_only_where_they_do_not_hide_the_line():
    for n in (MOST_MARKERS, MOST_MARKERS + 1):
        line = line_chart({"a": [float(i) for i in range(n)]}, list(range(n)), "T", "v").axes[0].lines[0]
        assert (line.get_marker() != "") == (n == MOST_MARKERS)


def test_a_change_of_rounding_size_looks_flat():
    low, high = line_chart({"a": [2.030610, 2.030611]}, [1, 2], "T", "v").axes[0].get_ylim()
    assert 0.01 * (high - low) > 1e-6


def test_lines_differ_without_colour_and_colours_differ_in_brightness_from_white_and_black():
    lines = line_chart({name: [1.0, 2.0] for name in "abcde"}, [1, 2], "T", "v").axes[0].lines
    assert len({line.get_marker() for line in lines}) == len({str(line._unscaled_dash_pattern) for line in lines}) == 5
    brightness = [np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)) for colour in COLOURS]
    assert 0.1 < min(brightness) <= max(brightness) < 0.7


def test_names_stay_text_in_the_svg_and_nothing_outside_is_referred_to():
    hostile = "</svg><script>\"'& $x_1$ 鹿"
    svg = inline_svg(line_chart({hostile: [1.0, 2.0], "b": [1.0, 2.0]}, [1, 2], hostile, hostile))
    parsed = ET.fromstring(svg.replace("xlink:href", "href"))  # it is well-formed
    texts = ["".join(element.itertext()) for element in parsed.iter("text")]
    assert texts.count(hostile) == 3
    assert not list(parsed.iter("script"))
    assert "http" not in svg
    assert all(value.startswith("#") for element in parsed.iter() for name, value in element.attrib.items() if name == "href")


def test_charts_of_a_page_share_no_ids_but_those_of_the_same_content():
    ids = []
    for values in ([1.0, 2.0], [5.0, 9.0, 2.0]):
        svg = ET.fromstring(inline_svg(line_chart({"a": values}, list(range(len(values))), "T", "v")).replace("xlink:href", "href"))
        ids.append({element.get("id"): ET.tostring(element) for element in svg.iter() if element.get("id")})
    for name in ids[0].keys() & ids[1].keys():
        assert ids[0][name] == ids[1][name]


def test_colours_of_the_svg_come_from_the_page():
    svg = inline_svg(line_chart({"a": [1.0, 2.0], "b": [1.0, 2.0]}, [1, 2], "T", "v"))
    assert "var(--series-0)" in svg
    assert "var(--series-1)" in svg
    assert "var(--ink)" in svg
    assert not any(colour in svg for colour in COLOURS)


def test_the_same_figure_is_the_same_file(tmp_path):
    for name in ("one", "two"):
        save_figure(line_chart({"a": [1.0, 2.0]}, [1, 2], "T", "v"), tmp_path / name)
    with Image.open(tmp_path / "one.png") as image:
        assert image.width == 400
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"series\['a'\] must have as many values as x = 3, but it has 2"):
        line_chart({"a": [1.0, 2.0]}, [1, 2, 3], "T", "v")
