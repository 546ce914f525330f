import math
import xml.etree.ElementTree as ET

import pytest

from lvmdc.reporting import line_chart
from lvmdc.reporting.curves import CHART, LARGEST, MOST_MARKS, WIDTH

NAMES = {"svg": "http://www.w3.org/2000/svg"}


def parsed(*args, **kwargs):
    return ET.fromstring(line_chart(*args, **kwargs))  # also: it is well-formed


def lines(svg):
    return [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in svg.findall("svg:polyline", NAMES)]


def marks(svg):
    return svg.findall("svg:path[@class='mark']", NAMES)


def words(svg):
    return [text.text for text in svg.findall("svg:text", NAMES)]


def test_every_value_is_a_point_of_its_line_and_a_mark():
    svg = parsed({"a": [3.0, 2.0, 1.0, 0.5], "b": [1.0, 1.0, 2.0, 2.0]}, [1, 2, 3, 4], "T", "value")
    assert [len(line) for line in lines(svg)] == [4, 4]
    assert len(marks(svg)) == 8
    assert {"T", "a", "b", "value", "iteration"} <= set(words(svg))
    assert marks(svg)[0].find("svg:title", NAMES).text == "a, iteration 1: 3"


def test_points_lie_in_proportion_within_the_image():
    ((first, second, third),) = lines(parsed({"a": [0.0, 5.0, 10.0]}, [0, 1, 2], "T", "v"))
    assert first[1] > second[1] > third[1]
    assert math.isclose(second[1], (first[1] + third[1]) / 2, abs_tol=0.11)
    assert math.isclose(second[0], (first[0] + third[0]) / 2, abs_tol=0.11)
    assert 0 < first[0] < third[0] < WIDTH
    assert first[1] - third[1] < CHART


def test_a_logarithmic_axis_spaces_decades_evenly_and_leaves_out_what_is_not_positive():
    svg = parsed({"gap": [100.0, 10.0, 1.0, 0.0]}, [1, 2, 3, 4], "T", "v", log=True)
    ((a, b, c),) = lines(svg)
    assert math.isclose(b[1] - a[1], c[1] - b[1], abs_tol=0.11)
    assert "iteration (1 left out: not finite or ≤ 0)" in words(svg)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_a_gap_and_is_counted(bad):
    svg = parsed({"a": [3.0, 2.0, bad, 1.0, 0.5, bad, 4.0]}, list(range(7)), "T", "v")
    assert [len(line) for line in lines(svg)] == [2, 2]
    assert len(marks(svg)) == 5  # the last stands alone, without a line
    assert "iteration (2 left out: not finite)" in words(svg)
    assert "nan" not in ET.tostring(svg, encoding="unicode").lower()


def test_what_was_not_measured_is_passed_over():
    svg = parsed({"val_loss": [3.0, None, None, 1.0, None]}, list(range(5)), "T", "v")
    assert [len(line) for line in lines(svg)] == [2]
    assert "iteration" in words(svg)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [1.5],
        [0.0],
        [-2.0],
        [7.0, 7.0],
        [1e-300, 1e300],
        [],
        [math.nan],
        [1e15, 1e15 + 1],
        [-1e-12, 1e-12],
        [1e-299, -1e299],
        [5e-324],
        [1e308, -1e308, 1.0],
    ],
)
def test_odd_histories_give_a_chart(values, log):
    svg = parsed({"a": values}, list(range(len(values))), "T", "v", log=log)
    shown = [v for v in values if abs(v) < LARGEST and (v > 1 / LARGEST or not log)]
    assert len(marks(svg)) == len(shown)
    assert ("nothing to show" in words(svg)) == (not shown)


def test_long_lines_have_no_marks_but_all_points():
    n = MOST_MARKS + 1
    svg = parsed({"a": [float(i) for i in range(n)]}, list(range(n)), "T", "v")
    assert [len(line) for line in lines(svg)] == [n]
    assert not marks(svg)


def test_a_change_of_rounding_size_looks_flat():
    ((a, b),) = lines(parsed({"a": [2.030610, 2.030611]}, [1, 2], "T", "v"))
    assert abs(a[1] - b[1]) < 1


def test_lines_differ_without_colour():
    svg = parsed({name: [1.0, 2.0] for name in "abcde"}, [1, 2], "T", "v")
    assert len({line.get("stroke-dasharray") for line in svg.findall("svg:polyline", NAMES)}) == 5
    assert len({mark.get("d") for mark in marks(svg)}) == 5


def test_names_are_escaped_and_many_fit_in_more_lines_of_legend():
    hostile = "</svg><script>\"'&"
    svg = parsed({hostile: [1.0], **{f"a long name number {i}": [1.0] for i in range(9)}}, [1], hostile, hostile)
    assert words(svg).count(hostile) == 3
    few = parsed({"a": [1.0]}, [1], "T", "v")
    assert float(svg.get("viewBox").split()[3]) > float(few.get("viewBox").split()[3])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"series\['a'\] must have as many values as x = 3, but it has 2"):
        line_chart({"a": [1.0, 2.0]}, [1, 2, 3], "T", "v")
