"""The record of a run in its folder: command, versions and the state of the code."""

import json
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lvmdc.storage.files import read_json, write_atomically

PACKAGES = (
    "lvmdc",
    "torch",
    "torchvision",
    "numpy",
    "pytorch-lightning",
    "hydra-core",
    "scikit-learn",
    "piqp",
    "opencv-contrib-python-headless",
)


def write_record(folder: Path) -> None:
    """Write `run.json`: when resumed, one more entry."""
    path = folder / "run.json"
    entries = read_json(path) if path.exists() else []
    if not isinstance(entries, list):
        raise ValueError(f"{path} must hold a list with an entry for each start of the run, but it does not: move it away")
    write_atomically(path, json.dumps([*entries, describe_run()], indent=2).encode())


def command_line(without: str | tuple[str, ...] = "\n") -> str:
    """The command of this run, without the words that begin with one of `without`.

    >>> command_line().startswith("python ")
    True
    """
    program = Path(sys.argv[0])
    installed = program.stem == "lvmdc" or program.parts[-2:] == ("lvmdc", "__main__.py")
    start = ["lvmdc"] if installed else ["python", sys.argv[0]]
    return shlex.join([*start, *(word for word in sys.argv[1:] if not word.startswith(without))])


def describe_run() -> dict[str, Any]:
    """The command, the versions of what it ran on, and the commit of the code with whether it was changed since.

    >>> sorted(describe_run())
    ['command', 'git', 'platform', 'python', 'versions']
    """
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES},
        "git": _git_state(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_state() -> dict[str, Any] | None:
    def ask(*words: str) -> str:
        here = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):  # not a checkout, or no git on this machine
        return None
