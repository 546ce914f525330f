"""One clear sentence instead of a traceback, with the nearest right name for a wrong one."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

EXPECTED = (HydraException, OmegaConfBaseException, ValueError, TypeError, OSError)


def run_script(main: Callable[[], object], config_dir: Path) -> None:
    """Run a Hydra application; a mistake of the user's ends it with a sentence, LVMDC_TRACEBACK=1 shows where it arose."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # or Hydra would print and exit itself
    try:
        main()
    except EXPECTED as error:
        if os.environ.get("LVMDC_TRACEBACK"):
            raise
        sys.exit(f"error: {explain(error, config_dir)}")


def explain(error: BaseException, config_dir: Path) -> str:
    """What was wrong, in a sentence.

    >>> from hydra.errors import HydraException
    >>> explain(HydraException("Could not override 'methd.C'.\\nKey 'methd' is not in struct"), Path("configs"))
    "there is no option 'methd.C': did you mean 'method.C'?"
    """
    cause = error
    while cause.__cause__ is not None and isinstance(error, HydraException):
        cause = cause.__cause__
    text = str(error)
    group = re.search(r"Could not find '([^']+)'", text) or re.search(r"In '[^']*': Could not find '([^']+)'", text)
    if group:
        return _unknown_choice(group[1], config_dir)
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"there is no option {key[1]!r}{_nearest(key[1], _keys(config_dir))}"
    missing = re.search(r"Missing mandatory value: (\S+)", f"{text} {cause}")
    if missing:
        return f"{missing[1]} must be given: {missing[1]}=…"
    line = str(cause).strip() or type(cause).__name__
    return line.splitlines()[0]


def _unknown_choice(wrong: str, config_dir: Path) -> str:
    folder, _, name = wrong.rpartition("/")
    choices = sorted(path.stem for path in (config_dir / folder).glob("*.yaml"))
    if not choices:
        groups = sorted(path.name for path in config_dir.iterdir() if path.is_dir())
        return f"there is no group {folder or name!r}{_nearest(folder or name, groups)}"
    return f"{folder}={name} is not one of {', '.join(choices)}{_nearest(name, choices)}"


def _nearest(wrong: str, right: list[str]) -> str:
    near = difflib.get_close_matches(wrong, right, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else "; see --help"


def _keys(config_dir: Path) -> list[str]:
    """Every option that some configuration file has, dotted and below its group."""
    from omegaconf import DictConfig, OmegaConf

    found: set[str] = set()

    def walk(node: DictConfig, prefix: str) -> None:
        for key in node:
            name = f"{prefix}{key!s}"
            found.add(name)
            child = node._get_node(key)
            if isinstance(child, DictConfig) and not child._is_none() and not child._is_interpolation():
                walk(child, f"{name}.")

    for path in config_dir.rglob("*.yaml"):
        group = path.relative_to(config_dir).parent.as_posix()
        node = OmegaConf.load(path)
        is_global = "@package _global_" in path.read_text(encoding="utf-8")
        if isinstance(node, DictConfig):
            node.pop("defaults", None)
            walk(node, "" if is_global or group == "." else f"{group}.")
    return sorted(found)
