"""The figure: two panels, a line per method, the paper's numbers marked."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from lvmdc.reporting.figures import save_figure
from lvmdc.reproduction.report import draw_figure

PAPER = {"zero_one": {"LSVM": (64.82, 4.96), "DISC": (47.76, 2.53)}, "overlap": {"LSVM": (44.93, 1.84), "DISC": (42.27, 3.64)}}
METHODS = ("LSVM", "ILSVM", "DISC", "Supervised")


@pytest.fixture(scope="module")
def figure():
    def points(loss):
        return pd.DataFrame({"mean": [loss + 0.05] * 3, "std": [0.07] * 3}, index=[0.1, 1.0, 10.0])

    curves = {loss: {m: points(0.2 + 0.1 * i) for i, m in enumerate(METHODS)} for loss in ("zero_one", "overlap")}
    return draw_figure({"Figure 1": (curves, PAPER)})


def test_two_panels_with_percent_over_a_logarithmic_C(figure):
    assert [axes.get_title() for axes in figure.axes] == ["0/1 loss", "overlap loss"]
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "C", "test loss, %")
        assert list(axes.get_xticks()) == [0.1, 1.0, 10.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*METHODS, "best in the paper"]


def test_lines_show_the_mean_in_percent_and_differ_in_colour_and_marker(figure):
    bars = {bar.get_label(): bar for bar in figure.axes[0].containers if bar.get_label() in METHODS}
    assert list(bars) == list(METHODS)
    assert bars["DISC"].lines[0].get_ydata() == pytest.approx([45.0] * 3)
    looks = {(to_hex(bar.lines[0].get_color()), bar.lines[0].get_marker()) for bar in bars.values()}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 4


def test_best_values_of_the_paper_are_marked_right_of_all_points(figure):
    for axes, loss in zip(figure.axes, PAPER, strict=True):
        stars = [bar.lines[0] for bar in axes.containers if bar.lines[0].get_marker() == "*"]
        assert [star.get_ydata()[0] for star in stars] == [mean for mean, _ in PAPER[loss].values()]
        assert min(star.get_xdata()[0] for star in stars) > 11
        assert max(star.get_xdata()[0] for star in stars) < axes.get_xlim()[1]


def test_a_method_without_results_is_in_the_legend():
    nothing = pd.DataFrame({"mean": [], "std": []}, index=pd.Index([], dtype=float))
    figure = draw_figure({"Nothing yet": ({"zero_one": {"LSVM": nothing, "DISC": nothing}}, PAPER)})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["LSVM", "DISC", "best in the paper"]


def test_files_are_written(figure, tmp_path):
    save_figure(figure, tmp_path / "figure_1")
    with Image.open(tmp_path / "figure_1.png") as image:
        assert image.width >= 1500
    content = (tmp_path / "figure_1.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"CreationDate" not in content  # the same chart is the same file
