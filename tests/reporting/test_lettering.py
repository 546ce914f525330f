import pytest

from lvmdc.reporting import drawing as module
from lvmdc.reporting.drawing import lettering, wrapped


@pytest.mark.parametrize("text", ["", "deer", "a deer in the woods by night", "x" * 300, "one " + "y" * 200])
@pytest.mark.parametrize("width", [30, 100, 400])
def test_lines_are_no_wider_than_asked_for_and_keep_all_letters_that_fit(text, width):
    font = lettering(text, 12)[1]
    lines = wrapped(text, font, width)
    assert 1 <= len(lines) <= 3
    assert all(font.getlength(line) <= width for line in lines)
    assert lines[-1].endswith("...") or "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_letters_that_no_font_knows_lose_their_accents_or_become_question_marks(monkeypatch):
    monkeypatch.setattr(module, "FONTS", ())
    assert lettering("élan 鹿", 12)[0] == "elan ?"


def test_control_characters_and_line_breaks_become_blanks():
    assert lettering("a\nb\x1b[31m\udc80", 12)[0] == "a b [31m "
