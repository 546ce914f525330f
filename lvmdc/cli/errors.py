"""One clear sentence instead of a traceback, with the nearest right name for a wrong one."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lvmdc.storage.files import FULL

log = logging.getLogger(__name__)
EXPECTED = (HydraException, OmegaConfBaseException, ValueError, TypeError, OSError)


def run_script(main: Callable[[], object], config_dir: Path) -> None:
    """Run a Hydra application; a mistake of the user's ends it with a sentence, LVMDC_TRACEBACK=1 shows where it arose."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # or Hydra would print and exit itself
    logging.raiseExceptions = False  # a log file on a full disk: the console still shows every line, without tracebacks between them
    threading.excepthook = _background
    try:
        main()
    except EXPECTED as error:
        if os.environ.get("LVMDC_TRACEBACK"):
            raise
        sys.exit(f"error: {explain(error, config_dir)}")


@contextmanager
def one_sentence(config_dir: Path) -> Iterator[None]:
    """End the program with a sentence for a mistake of the user's inside, before Hydra adds lines of its own.

    In a sweep the error is passed on: a launcher must see which of its runs failed.
    """
    try:
        yield
    except EXPECTED as error:
        sweeps = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
        if sweeps or os.environ.get("LVMDC_TRACEBACK"):
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
    group = re.search(r"Could not find '([^']+)'", text)
    if group:
        return _unknown_choice(group[1], config_dir)
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"there is no option {key[1]!r}{_nearest(key[1], sorted(_types(config_dir)))}"
    missing = re.search(r"Missing mandatory value: (\S+)", f"{text} {cause}")
    if missing:
        return f"{missing[1]} must be given: {missing[1]}=…"
    if isinstance(cause, OSError) and cause.strerror:
        return _file_error(cause)
    line = str(cause).strip() or type(cause).__name__
    return line.splitlines()[0]


def _file_error(error: OSError) -> str:
    """What is wrong with which file, without the number of the error; loggers do not say which file they could not write."""
    text = str(error.strerror).splitlines()[0]
    if error.filename:
        return f"{error.filename}: {text}"
    if error.errno in FULL and "could not be written" not in text:
        folder = HydraConfig.get().runtime.output_dir if HydraConfig.initialized() else "the run folder"
        return f"{folder} cannot be written to, since the disk is full: free some space and try again"
    return text


def _background(failed: threading.ExceptHookArgs) -> None:
    """A line for a logger whose thread could not write to its file; it raises the same error again where it is called."""
    if isinstance(failed.exc_value, OSError):
        log.warning("a file could not be written in the background: %s", failed.exc_value)
    else:
        threading.__excepthook__(failed)


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


def check_types(cfg: DictConfig, config_dir: Path) -> None:
    """Refuse what is no number, or no switch, where the configuration files have one.

    >>> check_types(OmegaConf.create({"method": {"max_iter": "many"}}), Path("configs"))
    Traceback (most recent call last):
    ValueError: method.max_iter must be an integer, but it is 'many'
    """
    types = _types(config_dir)
    for name, value in _leaves(cfg):
        allowed = types.get(name, set()) - {type(None)}
        if float in allowed:
            allowed = allowed | {int}
        # Only numbers and switches are held to their type: a word may be a path, a name or nothing at all.
        if value is not None and allowed and allowed <= {int, float, bool} and type(value) not in allowed:
            kind = "true or false" if allowed == {bool} else "an integer" if float not in allowed else "a number"
            raise ValueError(f"{name} must be {kind}, but it is {value!r}")


def _types(config_dir: Path) -> dict[str, set[type]]:
    """Every option that some configuration file has, dotted and below its group, with the types that it has there."""
    found: dict[str, set[type]] = {}
    for path in config_dir.rglob("*.yaml"):
        group = path.relative_to(config_dir).parent.as_posix()
        node = OmegaConf.load(path)
        is_global = "@package _global_" in path.read_text(encoding="utf-8")
        if isinstance(node, DictConfig):
            node.pop("defaults", None)
            for name, value in _leaves(node, "" if is_global or group == "." else f"{group}."):
                found.setdefault(name, set()).add(type(value))
    return found


def _leaves(node: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values, those of groups too; what refers to another setting, or is not set, is None."""
    for key in node:
        child = node._get_node(key)
        name = f"{prefix}{key!s}"
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_interpolation():
            yield name, {}
            yield from _leaves(child, f"{name}.")
        else:
            refers = child is None or child._is_interpolation() or child._is_missing()
            yield name, None if refers else node[key]
