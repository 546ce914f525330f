"""docs/RESULTS.md is generated: a section is replaced, never doubled, and nothing else is touched."""

import pytest

from lvmdc.reproduction.report import publish


def test_sections_are_replaced_in_place_and_the_rest_stays(tmp_path):
    for name in ("figure_1", "figure_2"):
        path = publish(tmp_path, name, f"old {name}", b"old")
    path.write_text(path.read_text().replace("# Results", "# Results\n\nWritten by hand."))
    publish(tmp_path, "figure_1", "new figure_1", b"new")
    text = path.read_text()
    assert "Written by hand." in text
    assert "old figure_1" not in text
    assert text.index("new figure_1") < text.index("old figure_2")
    assert (tmp_path / "figure_1.png").read_bytes() == b"new"


def test_name_that_begins_another_has_its_own_section(tmp_path):
    publish(tmp_path, "figure_1_cnn", "with CNN", b"")
    text = publish(tmp_path, "figure_1", "plain", b"").read_text()
    assert "with CNN" in text
    assert "plain" in text


@pytest.mark.parametrize("text", ["<!-- figure_1: begin -->", "<!-- figure_1: end --><!-- figure_1: begin -->"])
def test_broken_markers_are_refused_and_nothing_is_written(text, tmp_path):
    (tmp_path / "RESULTS.md").write_text(text)
    with pytest.raises(ValueError, match=r"RESULTS\.md must hold <!-- figure_1: begin --> and <!-- figure_1: end --> once"):
        publish(tmp_path, "figure_1", "text", b"")
    assert (tmp_path / "RESULTS.md").read_text() == text
    assert not (tmp_path / "figure_1.png").exists()
