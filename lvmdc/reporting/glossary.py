"""What every number means that is printed or drawn: numbers.md, a page of the documentation, from which the tooltips of the report come."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SOLVER = {"decrease", "w_decrease", "posterior_decrease", "gap", "gradient", "passes", "seconds"}  # how training went, not what it learned


class Number(NamedTuple):
    """What a number is called where it is shown, with its unit, and what it means."""

    name: str
    meaning: str


@cache
def glossary() -> dict[str, dict[str, Number]]:
    """The sections of numbers.md by heading: key → number.

    >>> glossary()["Results"]["corloc"].name
    'CorLoc'
    """
    sections: dict[str, dict[str, Number]] = {}
    for line in files("lvmdc.reporting").joinpath("numbers.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = sections.setdefault(line[3:], {})
        elif row := re.fullmatch(r"\| (.+?) \| `(\S+)` \| (.+?) \|", line):
            section[row[2]] = Number(row[1].replace("\\|", "|"), row[3].replace("\\|", "|"))
    return sections


@cache
def _by_name() -> dict[str, str]:
    return {number.name: number.meaning for section in glossary().values() for number in section.values()}


def explain(text: str) -> str:
    """The meaning of a heading, a row or a setting; empty where there is none.

    >>> explain("CorLoc")
    'The share of images whose predicted box overlaps the ground-truth box by at least half (IoU ≥ 0.5).'
    >>> explain("method.J") == explain("J"), explain("AP cat") == explain("AP"), explain("test, random candidate") != explain("test")
    (True, True, True)
    """
    general = "AP" if text.startswith("AP ") else "prior alone" if text.endswith("prior alone") else ""
    names = text, text.removeprefix("method."), text.partition(", ")[2], general
    return next((meaning for meaning in map(_by_name().get, names) if meaning), "")


def shown(key: str) -> str:
    """What a column of a history is called on the page, with its unit.

    >>> shown("seconds"), shown("val_loss")
    ('time (s)', 'val_loss')
    """
    columns = glossary()["Training"]
    return columns[key].name if key in columns else key


def tag(*words: str) -> str:
    """A TensorBoard tag: words of letters, digits and `_ . -` between slashes; how training went has a group of its own.

    >>> tag("val", "ap", "traffic light, red"), tag("train", "gap")
    ('val/ap/traffic_light_red', 'solver/gap')
    """
    if words[0] == "train" and words[1:2] and words[1] in SOLVER:
        words = "solver", *words[1:]
    return "/".join("_".join(re.findall(r"[\w.-]+", word)) or "_" for word in words)
