"""The glossary: complete for what learners and measures report, and the same in the tooltips and the documentation."""

from pathlib import Path

import pytest
import torch

from lvmdc import DISC, EM, LSVM, M3E, Candidates, OverlapLoss, SoftDISC
from lvmdc.reporting.glossary import SOLVER, explain, glossary, shown, tag

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_the_documentation_is_the_glossary():
    page, source = ROOT / "docs" / "numbers.md", ROOT / "lvmdc" / "reporting" / "numbers.md"
    assert page.read_text(encoding="utf-8") == source.read_text(encoding="utf-8")
    rows = sum(
        line.startswith("| ") and not line.startswith(("| number", "| ---")) for line in source.read_text(encoding="utf-8").splitlines()
    )
    assert sum(len(section) for section in glossary().values()) == rows > 50


def test_a_name_has_one_meaning():
    meanings = {}
    for section in glossary().values():
        for number in section.values():
            assert meanings.setdefault(number.name, number.meaning) == number.meaning
            assert explain(number.name) == number.meaning


@pytest.mark.parametrize("learner", [DISC, LSVM, EM, M3E, SoftDISC], ids=lambda cls: cls.__name__)
def test_every_column_of_a_history_is_explained(learner):
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(60, 2, generator=generator)
    candidates = Candidates(torch.randn(60, 4, generator=generator), [3] * 20, torch.cat([corner, corner + 1], dim=1))
    arguments = {} if learner in (EM, M3E) else {"loss": OverlapLoss()}
    model = learner(C=1.0, max_iter=2, **arguments).fit(candidates, torch.arange(20) % 2)
    assert [name for name in model.history_[-1] if not explain(shown(name))] == []


def test_solver_measures_are_columns_of_a_history():
    assert set(glossary()["Training"]) >= SOLVER


@pytest.mark.parametrize("word", ["traffic light", "a, b", "é/ü", "100 %", "", "%%"])
def test_a_tag_has_no_commas_or_spaces(word):
    assert set(tag("train", "ap", word)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_/éü")
    assert not tag("train", word).endswith("/")
