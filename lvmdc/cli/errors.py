"""The start of every program: one clear sentence instead of a traceback, with the nearest right name for a wrong one."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lvmdc.cli.config import CONFIGS, register
from lvmdc.lightning.renamed import WORDS, renamed_words
from lvmdc.storage.files import FULL

log = logging.getLogger(__name__)
CONVERTED = {"Integer": "an integer", "Float": "a number"}  # as OmegaConf calls them
EXPECTED = (HydraException, OmegaConfBaseException, ValueError, TypeError, OSError)


def run(config_name: str, work: Callable[[DictConfig], Any] | None, words: Sequence[str] | None = None) -> None:
    """Compose a configuration from the words of the command line, all but the program's name where not given, and work on it, unless the
    words ask for help.

    A mistake of the user's ends the program with a sentence; LVMDC_TRACEBACK=1 shows where it arose. In a sweep the error is passed on:
    a launcher must see which of its runs failed.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # or Hydra would print and exit itself
    logging.raiseExceptions = False  # a log file on a full disk: the console still shows every line, without tracebacks between them
    threading.excepthook = _background
    register()
    words = sys.argv[1:] if words is None else words
    start, words = sys.argv[: len(sys.argv) - len(words)], renamed_words(list(words))
    command = [*start, *words]
    sys.argv = [start[0], *words]  # where Hydra reads its words: no name of a command

    @hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)
    def main(cfg: DictConfig) -> Any:
        sys.argv = command  # by which Lightning starts other ranks, and which the record of a run holds
        try:
            return None if work is None else work(cfg)
        except EXPECTED as error:
            if HydraConfig.get().mode == RunMode.MULTIRUN or os.environ.get("LVMDC_TRACEBACK"):
                raise
            sys.exit(f"error: {explain(error)}")  # before Hydra adds lines of its own

    try:
        main()
    except EXPECTED as error:
        if os.environ.get("LVMDC_TRACEBACK"):
            raise
        sys.exit(f"error: {explain(error)}")


def explain(error: BaseException) -> str:
    """What was wrong, in a sentence.

    >>> from hydra.errors import HydraException, OverrideParseException
    >>> explain(HydraException("Could not override 'methd.C'.\\nKey 'methd' is not in struct"))
    "there is no option 'methd.C': did you mean 'method.C'?"
    """
    cause = error
    while cause.__cause__ is not None and isinstance(error, HydraException):
        cause = cause.__cause__
    text = str(error)
    if isinstance(error, OverrideParseException):
        name, equals, given = error.override.partition("=")
        if not equals:
            return f"{name!r} must be group=choice or name=value, such as method=lsvm or seed=1; see --help"
        return f"the value of {name} cannot be read: {given!r}; one with special characters needs quotes within quotes: {name}=\"'a, b'\""
    group = re.search(r"Could not find '([^']+)'", text)
    if group:
        return _unknown_choice(group[1])
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        options, chosen = _options(), key[1].split(".")[0]
        elsewhere = f" here: it belongs to another command or to another choice of {chosen!r}"
        hint = elsewhere if key[1] in options else _nearest(key[1], sorted(options))
        return f"there is no option {key[1]!r}{hint}"
    key = re.search(r"Key '([^']+)' not in", f"{text} {cause}")
    if key:
        renamed = [f"{old.rstrip('=.')} is now {new.rstrip('=.')}" for old, new in WORDS.items() if old.startswith(f"{key[1]}.")]
        if renamed:
            return f"a configuration file has {key[1]!r}, whose settings have new names: {', '.join(renamed)}"
        return f"a configuration file has {key[1]!r}, but there is no such option{_nearest(key[1], sorted(_options()))}"
    value = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)\s+full_key: (\S+)", f"{text} {cause}")
    if value:
        return f"{value[3]} must be {CONVERTED.get(value[2], value[2])}, but it is {value[1]!r}"
    value = re.search(r"Value '(.*)' is not a valid bool \(type \w+\)\s+full_key: (\S+)", f"{text} {cause}")
    if value:
        return f"{value[2]} must be true or false, but it is {value[1]!r}"
    missing = re.search(r"Missing mandatory value: (\S+)", f"{text} {cause}")
    if missing:
        return f"{missing[1]} must be given: add {missing[1]}=VALUE"
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


def _unknown_choice(wrong: str) -> str:
    folder, _, name = wrong.rpartition("/")
    choices = sorted(path.stem for path in (CONFIGS / folder).glob("*.yaml"))
    if not choices:
        groups = sorted(path.name for path in CONFIGS.iterdir() if path.is_dir())
        return f"there is no group {folder or name!r}{_nearest(folder or name, groups)}"
    return f"{folder}={name} is not one of {', '.join(choices)}{_nearest(name, choices)}"


def _nearest(wrong: str, right: list[str]) -> str:
    near = difflib.get_close_matches(wrong, right, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else "; see --help"


def _options() -> set[str]:
    """The dotted names of all options that some configuration file has, those of groups too."""
    found: set[str] = set()
    for path in CONFIGS.rglob("*.yaml"):
        group = path.relative_to(CONFIGS).parent.as_posix()
        node = OmegaConf.load(path)
        is_global = group == "." or "@package _global_" in path.read_text(encoding="utf-8")
        if isinstance(node, DictConfig):
            node.pop("defaults", None)
            found |= {"" if is_global else group, *_names(OmegaConf.to_container(node), "" if is_global else f"{group}.")}
    return found - {""}


def _names(node: Any, prefix: str) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, dict) else ():
        yield f"{prefix}{key}"
        yield from _names(value, f"{prefix}{key}.")
