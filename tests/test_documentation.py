"""The README and the documentation: their code runs, their commands are valid, their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from lvmdc.cli import config as resolvers
from lvmdc.cli.reproduce import quoted
from lvmdc.lightning.renamed import renamed_words

ROOT = Path(__file__).resolve().parents[1]
# RESULTS.md is written by a program, with the commands that were typed then.
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "RESULTS.md")]
SCRIPTS = {"train": "train", "eval": "eval", "predict": "predict", "reproduce": "reproduce", "make_proposals": "make_proposals"}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page):
    """Script and words of every `python scripts/…` in a block or in a table."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()] + re.findall(r"`(python scripts/[^`]+)`", text)
    for line in lines:
        found = re.match(r"(?:\S*/)?python scripts/(\w+)\.py\s*(.*)", line)
        if found:
            yield found[1], shlex.split(found[2], comments=True)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(page, "python")), str(page), "exec"), {"__name__": page.stem})


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))], ids=lambda page: page.name)
def test_commands_of_a_page_compose(page):
    resolvers.register()
    for script, words in commands(page):
        assert (ROOT / "scripts" / f"{script}.py").is_file(), script
        overrides = [word for word in words if "=" in word and word.split("=")[0] not in ("hydra/launcher",)]
        if script not in SCRIPTS or "--help" in words:
            continue
        sweep = renamed_words([word.split(",")[0] if "-m" in words else word for word in overrides])
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
            compose(SCRIPTS[script], overrides=quoted(sweep))


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
