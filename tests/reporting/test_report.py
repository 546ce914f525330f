"""The HTML report: complete, without outside resources, and safe against names that look like HTML."""

import base64
import io
import math
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from lvmdc.reporting import line_chart, results_table, write_report

HOSTILE = "</title></style><script>alert(\"1\")</script><img src='http://evil/x' onerror=\"a\"> & 'q'"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Checks that tags close in order and keeps what a browser would use."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.inner = [], [], [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert not self.open, f"unclosed {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        self.inner.append((self.open[-1] if self.open else "", data))

    def images(self):
        sources = [value for tag, name, value in self.attributes if (tag, name) == ("img", "src")]
        return [Image.open(io.BytesIO(base64.b64decode(s.removeprefix("data:image/png;base64,")))) for s in sources]


def row(i, **more):
    terms = {"objective": 3.0 / i, "w_norm": 0.5, "theta_norm": 0.1, "slack": 1.0, "diversity": 0.4, "loss": 0.3, "error": 0.2}
    return {"iteration": i, **terms, "entropy": 1.0, "passes": 10 * i, "gap": 1e-3, "seconds": 0.5, "decrease": 0.1 / i, **more}


def written(tmp_path, **changes):
    arguments = {
        "title": "A run",
        "settings": {"method.C": "10", "data": "mammals"},
        "history": [row(1), row(2), row(3)],
        "results": [{"method": "DISC", "loss": 0.4227}],
        "images": [],
        "commands": ["python scripts/train.py", "tensorboard --logdir logs"],
    }
    path = tmp_path / "report.html"
    write_report(path, **{**arguments, **changes})
    return Page(path)


def test_the_page_has_all_sections_and_charts(tmp_path):
    page = written(tmp_path)
    text = " ".join(page.texts)
    for heading in ("What was run", "Results", "Curves", "Images", "How to reproduce", "method.C", "0.4227", "tensorboard --logdir logs"):
        assert heading in text
    assert page.tags.count("svg") == 5
    assert {"objective (11)", "½‖w‖²", "mean slack ξ", "class error", "entropy of P_θ (nats)", "duality gap"} <= set(page.texts)
    assert {"charset", "viewport"} <= {value for tag, name, value in page.attributes if tag == "meta"} | {n for t, n, _ in page.attributes}


def test_the_data_term_is_the_objective_less_the_norms(tmp_path, monkeypatch):
    shown = {}
    monkeypatch.setattr("lvmdc.reporting.report.line_chart", lambda series, *others: shown.update(series) or line_chart(series, *others))
    written(tmp_path)
    assert shown["C × mean (ξ − βH)"] == pytest.approx([2.4, 0.9, 0.4])


def test_every_image_is_in_the_page_pixel_by_pixel(tmp_path):
    images = [(f"image {i}", Image.new("RGB", (20 + i, 10), (i, 2 * i, 0))) for i in range(7)]
    page = written(tmp_path, images=images)
    held = {(shown.size, shown.convert("RGB").tobytes()) for shown in page.images()}
    assert {(image.size, image.tobytes()) for _, image in images} <= held
    assert page.tags.count("figure") == 7


def test_nothing_outside_the_page_is_needed(tmp_path):
    page = written(tmp_path, images=[("a", Image.new("RGB", (4, 4)))])
    for _, name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert value.startswith("data:" if name == "src" else "#")
    assert "http://" not in page.source
    assert "https://" not in page.source
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "default-src 'none'" in page.source
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page.source))
    assert "@import" not in page.source


def test_hostile_names_stay_text(tmp_path):
    page = written(
        tmp_path,
        title=HOSTILE,
        settings={HOSTILE: HOSTILE},
        history=[row(1, **{f"{HOSTILE}_loss": 0.5})],
        results=[{HOSTILE: HOSTILE}],
        images=[(HOSTILE, Image.new("RGB", (4, 4)))],
        commands=[HOSTILE],
    )
    assert "script" not in page.tags
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert all(value.startswith("data:") for _, name, value in page.attributes if name == "src")
    assert ("img", "alt", HOSTILE) in page.attributes
    assert page.texts.count(HOSTILE) >= 8


def test_names_that_are_not_utf_8_are_shown_with_a_sign(tmp_path):
    assert "a�b" in written(tmp_path, images=[("a\udc80b", Image.new("RGB", (4, 4)))]).texts


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_do_not_break_it(tmp_path, bad):
    page = written(tmp_path, history=[row(1), row(2, objective=bad, gap=bad, entropy=bad), row(3)])
    assert page.tags.count("svg") == 5
    assert any("left out: not finite" in text for text in page.texts)


def test_a_validation_loss_of_some_iterations_is_drawn(tmp_path):
    page = written(tmp_path, history=[row(1, val_loss=0.5), row(2), row(3, val_loss=0.4)])
    assert page.texts.count("val_loss") == 2  # in a legend and in the table
    assert "left out" not in page.source


@pytest.mark.parametrize("history", [[], [row(1)], [{"objective": 1.0}], [{"iteration": 1}]])
def test_short_histories(tmp_path, history):
    assert written(tmp_path, history=history).tags.count("section") == 5


def test_an_empty_report_has_all_headings(tmp_path):
    page = written(tmp_path, settings={}, history=[], results=[], images=[], commands=[])
    assert page.tags.count("h2") == 5


def test_results_may_be_a_table(tmp_path):
    page = written(tmp_path, results=results_table([{"loss": 0.4227}], percent=["loss"]))
    assert "42.3 %" in page.texts


def test_the_history_is_not_changed(tmp_path):
    history = [row(1)]
    written(tmp_path, history=history)
    assert history == [row(1)]


def test_a_failure_leaves_the_old_page_and_no_other_file(tmp_path, monkeypatch):
    written(tmp_path, title="old")

    def fails(source, target):
        raise OSError("the disk is gone")

    monkeypatch.setattr("lvmdc.storage.files.os.replace", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        written(tmp_path, title="new")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert "<h1>old</h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_every_number_of_the_page_has_a_tooltip(tmp_path):
    table = results_table([{"part": "test", "loss": 0.4, "CorLoc": 0.5}, {"part": "test, random candidate", "loss": 0.4, "CorLoc": 0.5}])
    page = written(tmp_path, results=table, images=[("a", Image.new("RGB", (4, 4)))])
    explained = {text for tag, text in page.inner if tag == "abbr"}
    assert {"loss", "CorLoc", "test", "test, random candidate", "objective (11)", "passes", "time (s)", "duality gap"} <= explained
    assert {"method.C", "ground-truth box", "predicted box", "class wrong", "decrease of the objective"} <= explained
    assert all(value for tag, name, value in page.attributes if tag == "abbr")
    titles = [text for tag, text in page.inner if tag == "title"]
    assert any(text.startswith("Equation (9)") for text in titles)  # of the slack, in the legend of a chart
    assert "data" not in explained


def test_the_legend_has_what_the_drawings_show(tmp_path):
    page = written(tmp_path, images=[("a", Image.new("RGB", (4, 4)))], meanings=("truth", "score"))
    explained = {text for tag, text in page.inner if tag == "abbr"}
    assert {"ground-truth box", "score"} <= explained
    assert not {"predicted box", "class wrong"} & explained
