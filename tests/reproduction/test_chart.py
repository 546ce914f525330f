"""The figure: two panels, a line a method, the paper's numbers marked."""

import pytest
from matplotlib.colors import to_hex
from PIL import Image

from lvmdc.reproduction import Choice
from lvmdc.reproduction.chart import _spread, draw_chart, require, save_chart

PAPER = {"zero_one": {"LSVM": (64.82, 4.96), "DISC": (47.76, 2.53)}, "overlap": {"LSVM": (44.93, 1.84), "DISC": (42.27, 3.64)}}
METHODS = ("LSVM", "ILSVM", "DISC", "Supervised")


@pytest.fixture(scope="module")
def figure():
    def points(loss):
        return [(C, Choice([None] * 2, [{"loss": loss}, {"loss": loss + 0.1}])) for C in (0.1, 1.0, 10.0)]

    curves = {loss: {m: points(0.2 + 0.1 * i) for i, m in enumerate(METHODS)} for loss in ("zero_one", "overlap")}
    return draw_chart(curves, PAPER, "Figure 1")


def test_two_panels_with_percent_over_a_logarithmic_C(figure):
    assert [axes.get_title() for axes in figure.axes] == ["0/1 loss", "overlap loss"]
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "C", "test loss, %")
        assert list(axes.get_xticks()) == [0.1, 1.0, 10.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(METHODS)


def test_lines_show_the_mean_in_percent_and_differ_in_colour_and_marker(figure):
    bars = {bar.get_label(): bar for bar in figure.axes[0].containers if bar.get_label() in METHODS}
    assert list(bars) == list(METHODS)
    assert bars["DISC"].lines[0].get_ydata() == pytest.approx([45.0] * 3)
    looks = {(to_hex(bar.lines[0].get_color()), bar.lines[0].get_marker()) for bar in bars.values()}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 4


def test_papers_best_values_are_marked_and_labelled(figure):
    assert [t.get_text() for t in figure.axes[0].texts] == ["paper 64.8", "paper 47.8"]
    stars = [bar.lines[0] for bar in figure.axes[1].containers if bar.lines[0].get_marker() == "*"]
    assert [star.get_ydata()[0] for star in stars] == [44.93, 42.27]


def test_labels_never_lie_on_each_other():
    placed = _spread([44.93, 47.26, 45.0], gap=2.0)
    assert sorted(placed) == [placed[0], placed[2], placed[1]]
    assert min(b - a for a, b in zip(sorted(placed), sorted(placed)[1:], strict=False)) >= 2.0 - 1e-6


def test_files_are_written(figure, tmp_path):
    save_chart(figure, tmp_path / "figure_1")
    with Image.open(tmp_path / "figure_1.png") as image:
        assert image.width >= 1500
    content = (tmp_path / "figure_1.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"CreationDate" not in content  # the same chart is the same file


def test_package_that_is_missing_is_named_with_the_way_to_get_it():
    with pytest.raises(ModuleNotFoundError, match=r"the figures need nowhere_to_be_found, .* pip install 'lvmdc\[paper\]'"):
        require("nowhere_to_be_found")
