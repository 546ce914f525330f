"""What can be set, and what it means: read from the comments of the configurations and from the docstrings of the classes they name.

The help of each command and the configuration page of the documentation are both made from this.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import OmegaConf

from lvmdc.cli import COMPOSED
from lvmdc.cli.config import CONFIGS

LINE = re.compile(r"(?P<indent> *)(?P<key>[\w@./-]+):(?:\s+(?P<value>[^#\s].*?))?(?:\s+#\s*(?P<comment>.*))?$")
GLOBAL = "@package _global_"
WITHOUT_CHOICE = ("paths", "extras", "hydra")  # groups of one choice each, which nobody chooses
REQUIRED = "???"
ABSTRACT = ("base", "direct")  # what other configurations of data sets share
RECIPES = ("debug", "experiment", "figure")  # groups whose files set what others define
WIDTH, COLUMN = 120, 30  # of the help on a terminal; where explanations begin


@dataclass(frozen=True)
class Setting:
    """One setting of a configuration file: its dotted name on the command line, its default and its meaning."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Part:
    """A configuration file: what it says of itself, the files it extends, the choices it makes in other groups, and its settings."""

    about: str
    extends: list[str]
    chosen: dict[str, str]
    settings: list[Setting]


def read_part(path: Path) -> Part:
    """A file below `configs/`.

    >>> part = read_part(CONFIGS / "method" / "m3e.yaml")
    >>> part.settings[0]
    Setting(name='method.alpha', default='2.0', meaning="the order of the entropy: 1 is Shannon's, inf the latent SVM")
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line[1:].strip() for line in lines[: next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))]]
    group = path.relative_to(CONFIGS).parent.as_posix()
    prefix = "" if group == "." or GLOBAL in head else f"{group}."
    plain: Any = OmegaConf.to_container(OmegaConf.load(path)) or {}
    listed = plain.pop("defaults", [])
    extends = [entry for entry in listed if isinstance(entry, str) and (path.parent / f"{entry}.yaml").is_file()]
    pairs = [pair for entry in listed if isinstance(entry, dict) for pair in entry.items()]
    chosen = {key.removeprefix("override").strip().lstrip("/"): "null" if value is None else str(value) for key, value in pairs}
    settings = [Setting(prefix + s.name, s.default, s.meaning) for s in _settings(lines, plain)]
    return Part(" ".join(line for line in head if line != GLOBAL), extends, chosen, settings)


def _settings(lines: list[str], plain: dict[str, Any]) -> Iterator[Setting]:
    parents: list[tuple[int, str, str]] = []  # indent, key, meaning
    for line in lines:
        found = LINE.match(line)
        if found is None:
            continue
        indent, key = len(found["indent"]), found["key"]
        parents = [parent for parent in parents if parent[0] < indent]
        names = [*(name for _, name, _ in parents), key]
        node: Any = plain
        for name in names[:-1]:
            node = node.get(name) if isinstance(node, dict) else None
        if not isinstance(node, dict) or key not in node or key.startswith("_") or names[0] == "hydra":
            continue  # a list of choices, what is built, or Hydra's own
        meaning = found["comment"] or _arguments(str(node.get("_target_"))).get(key, "")
        if meaning or (found["value"] and not any(text for _, _, text in parents)):  # else the parent's text says it
            yield Setting(".".join(names), found["value"] or "", meaning)
        parents.append((indent, key, meaning))


@cache
def _arguments(target: str) -> dict[str, str]:
    """What the docstrings of a class of lvmdc, and of those above it, say of its arguments."""
    if not target.startswith("lvmdc."):
        return {}
    made: Any = get_object(target)
    found: dict[str, str] = {}
    owner = getattr(made, "__self__", None)  # of a class method, such as FileProposals.for_images
    for part in (*reversed(inspect.getmro(owner or made)), made) if inspect.isclass(owner or made) else (made,):
        block = re.search(r"^Args\b.*:\n((?:(?: +.*)?(?:\n|$))+)", inspect.cleandoc(part.__doc__ or ""), re.MULTILINE)
        for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", block[1] if block else "", re.MULTILINE):
            found[name] = " ".join(text.split()).removesuffix(".")
    return found


def choices(group: str) -> list[Path]:
    """The files of a group, in the order of their names."""
    return sorted((CONFIGS / group).glob("*.yaml"))


def groups(command: str) -> dict[str, str]:
    """The groups that a command has, with what it chooses of each.

    >>> groups("train")["method"], groups("predict")
    ('disc', {})
    """
    found = read_part(CONFIGS / f"{command}.yaml").chosen
    return {group: choice for group, choice in found.items() if group not in WITHOUT_CHOICE and "@" not in group}


def own_settings(command: str) -> list[Setting]:
    """The settings of a command that belong to no group of choices."""
    part = read_part(CONFIGS / f"{command}.yaml")
    shared = [read_part(CONFIGS / group / "default.yaml").settings for group in WITHOUT_CHOICE[:2] if group in part.chosen]
    return [*part.settings, *(setting for settings in shared for setting in settings)]


def help_options(command: str) -> str:
    """The options of a command for its `--help`, dollar signs doubled, as Hydra's template wants them.

    >>> print(help_options("predict").splitlines()[2])
      ckpt_path= (required)        the checkpoint, or run folder, to predict with
    """
    lines = ["Options, with their defaults:"]
    for setting in own_settings(command):
        default = " (required)" if setting.default == REQUIRED else setting.default
        lines += _entry(f"{setting.name}={default}", setting.meaning)
    if groups(command):
        lines += ["", "Groups, with the default and the choices:"]
        for group, choice in groups(command).items():
            names = [path.stem for path in choices(group) if path.stem not in ABSTRACT]
            lines += _entry(f"{group}={'' if choice == 'null' else choice}", ", ".join(names))
    return "\n".join(lines).replace("$", "$$")


def _entry(name: str, text: str) -> list[str]:
    """A name and its explanation beside it, or below it where the name is long."""
    beside = len(name) < COLUMN - 2
    shown = textwrap.wrap(text, WIDTH - COLUMN - 2, break_on_hyphens=False) or [""]
    first = [f"  {name:<{COLUMN}}{shown.pop(0)}".rstrip()] if beside else [f"  {name}"]
    return first + [" " * (COLUMN + 2) + line for line in shown if line]


# ---- the page --------------------------------------------------------------------------------------------------------


def configuration_page() -> str:
    """The configuration page of the documentation, in Markdown."""
    lines = ["# Configuration reference", "", INTRODUCTION, ""]
    for name, config in COMPOSED.items():
        lines += [f"## lvmdc {name}", "", *_table(own_settings(config)), ""]
        own = groups(config)
        if own:
            lines += [
                "Groups: " + ", ".join(f"[`{group}={choice}`](#{group.replace('/', '-')})" for group, choice in own.items()) + ".",
                "",
            ]
    known = {group for config in COMPOSED.values() for group in groups(config)}
    others = {path.parent.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*/*.yaml")} - {*WITHOUT_CHOICE}
    for group in [*(group for group in groups("train")), *sorted((known | others) - {*groups("train")})]:
        lines += [f"## {group}", ""]
        for path in choices(group):
            part = read_part(path)
            lines += [f"### `{group}={path.stem}`", "", part.about, ""]
            if part.extends:
                lines += ["Has what " + " and ".join(f"`{group}={name}`" for name in part.extends) + " has.", ""]
            if part.chosen:
                lines += ["Chooses " + ", ".join(f"`{name}={choice}`" for name, choice in part.chosen.items()) + ".", ""]
            if group in RECIPES and part.settings:
                shown = [f"`{s.name}={s.default}`" if s.default else f"`{s.name}`: {s.meaning}" for s in part.settings]
                lines += ["Sets " + ", ".join(shown) + ".", ""]
            elif part.settings:
                lines += [*_table(part.settings), ""]
    return "\n".join(lines)


INTRODUCTION = (
    "Every command composes a configuration from `configs/`. On the command line, `group=choice` replaces a part of it and\n"
    "`name=value` a setting; `lvmdc train --help` prints the result, also with choices before `--help`. This page is made from the\n"
    "configuration files and from the docstrings of the classes that they name. `${…}` refers to another setting."
)


def _table(settings: list[Setting]) -> list[str]:
    rows = [f"| `{s.name}` | {_cell(s.default)} | {s.meaning.replace('|', chr(92) + '|')} |" for s in settings]
    return ["| setting | default | meaning |", "| --- | --- | --- |", *rows]


def _cell(default: str) -> str:
    return "required" if default == REQUIRED else f"`{default}`".replace("|", "\\|") if default else ""
