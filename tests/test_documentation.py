"""The README and the documentation: their code runs, their commands are valid, their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from lvmdc.cli import COMMANDS, COMPOSED
from lvmdc.cli import config as resolvers
from lvmdc.cli.config import CONFIGS
from lvmdc.cli.options import RECIPES, configuration_page, read_part
from lvmdc.cli.reproduce import ALL, quoted
from lvmdc.lightning.renamed import renamed_words

ROOT = Path(__file__).resolve().parents[1]
# RESULTS.md is written by a program, with the commands that were typed then.
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "RESULTS.md")]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page):
    """The command and the words of every `lvmdc …` in a block or in a table."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()] + re.findall(r"`(lvmdc [^`]+)`", text)
    return [found for line in lines for found in words_of(line)]


def words_of(line):
    """Nothing for a line that is no command of lvmdc; `torchrun` starts scripts/*.py, whose words are the same."""
    found = re.match(r"\s*(?:\S*/)?(?:lvmdc |torchrun .*scripts/)(\w+)(?:\.py)?(?:\s+(.*))?$", line)
    return [(found[1], shlex.split(found[2] or "", comments=True))] if found else []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(page, "python")), str(page), "exec"), {"__name__": page.stem})


def compose_as_typed(command, words):
    assert command in COMMANDS, command
    if command not in COMPOSED or "--help" in words or any(word.startswith("--config-dir") for word in words):  # which is the reader's own
        return
    overrides = [word for word in renamed_words(words) if "=" in word and word.split("=")[0] != "hydra/launcher"]
    sweep = [word.split(",")[0] if "-m" in words else word for word in overrides]
    figures = ALL if "figure=all" in sweep else [None]  # each of which is composed
    resolvers.register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        for figure in figures:
            compose(COMPOSED[command], overrides=quoted([f"figure={figure}" if word == "figure=all" else word for word in sweep]))


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_of_a_page_compose(page):
    for command, words in commands(page):
        compose_as_typed(command, words)


@pytest.mark.parametrize("command", COMPOSED)
def test_help_explains_the_own_options_of_a_command_with_examples_that_compose(command):
    part = OmegaConf.load(CONFIGS / f"{COMPOSED[command]}.yaml").hydra.help
    template = str(OmegaConf.to_container(part)["template"])
    assert f"${{options:{COMPOSED[command]}}}" in template
    examples = [found for line in template.splitlines() if line.startswith("  ") for found in words_of(line)]
    assert {name for name, _ in examples} == {command}
    for name, words in examples:
        compose_as_typed(name, words)


def test_examples_of_the_commands_compose():
    for name, (_, _, example) in COMMANDS.items():
        compose_as_typed(name, shlex.split(example))


def test_commands_hold_nothing_that_a_shell_or_hydra_cannot_read():
    typed = [line for page in PAGES for block in blocks(page, "bash") for line in block.splitlines()]
    typed += [word for page in PAGES for word in re.findall(r"`(lvmdc [^`]+)`", page.read_text(encoding="utf-8"))]
    assert [line for line in typed if "…" in line.split("#")[0]] == []


@pytest.mark.parametrize("path", [p for p in sorted(CONFIGS.rglob("*.yaml")) if p.parent.name not in (*RECIPES, "hydra", "paper")])
def test_every_setting_says_what_it_means(path):
    part = read_part(path)
    assert part.about or path.parent == CONFIGS
    assert [setting.name for setting in part.settings if not setting.meaning] == []


def test_configuration_page_has_every_file_and_setting():
    page = configuration_page()
    for path in CONFIGS.rglob("*.yaml"):
        part, group = read_part(path), path.parent.name
        if group in ("hydra", "paths", "extras"):
            continue
        assert path.parent == CONFIGS or f"### `{group}={path.stem}`\n" in page
        assert all(f"`{setting.name}" in page for setting in part.settings), path


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120


def test_what_the_concepts_page_names_for_the_paper_is_in_the_code():
    table = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").partition("## The paper in the code")[2].partition("\n## ")[0]
    parts = [part for line in table.splitlines() for part in re.split("; ", line) if ".py`" in part]
    for part in parts:
        file, *names = re.findall(r"`([^`]+)`", part)
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in names:
            if name != "loss":  # a column
                assert re.search(rf"^ *(class|def) {name.rpartition('.')[2]}\b", text, re.MULTILINE), f"{name} in {file}"
    numbers = {int(number) for number in re.findall(r"\((\d+)\)", table)}
    assert numbers == set(range(1, 18))
