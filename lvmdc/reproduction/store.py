"""Results on disk: one JSON a run, which is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from lvmdc.reproduction.protocol import FORMAT, Run
from lvmdc.storage.files import read_json, write_atomically

log = logging.getLogger(__name__)


class Store:
    """`runs/<key>.json` for every run that is done, `failed/<key>.txt` for every one that ended in an error the last time.

    >>> import tempfile
    >>> from lvmdc.reproduction import Division
    >>> run = Run("LSVM", "lvmdc.LSVM", "zero_one", '{"_target_": "lvmdc.ZeroOneLoss"}', (("C", 1.0),), (), Division(fold=0), "data")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.read(run), store.write(run, {"measures": {"loss": 0.5}}), store.read(run)["measures"]
    (None, None, {'loss': 0.5})
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, run: Run) -> Path:
        """Where the result of a run lies."""
        return self.folder / "runs" / f"{run.key}.json"

    def failure(self, run: Run) -> Path:
        """Where the traceback of a run lies that ended in an error."""
        return self.folder / "failed" / f"{run.key}.txt"

    def read(self, run: Run) -> dict[str, Any] | None:
        """The result of a run; None where it is not done, or its file is damaged, which a warning names."""
        path = self.path(run)
        if not path.exists():
            return None
        try:
            result = read_json(path)
            _check_result(result)
            return result
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the result %s is damaged, and its run is done again: %s", path, error)
            return None

    def write(self, run: Run, result: dict[str, Any]) -> None:
        """Keep a result, with the state of the code that made it; an earlier failure is forgotten."""
        kept = {"format": FORMAT, "code": code_digest()} | result
        write_atomically(self.path(run), json.dumps(kept, indent=1, ensure_ascii=False).encode())
        self.failure(run).unlink(missing_ok=True)

    def fail(self, run: Run, text: str) -> None:
        """Keep why a run ended in an error."""
        words = json.dumps(run.describe(), ensure_ascii=False)
        write_atomically(self.failure(run), f"{words}\n\n{text}".encode(errors="backslashreplace"))

    def clear(self, run: Run) -> None:
        """Forget that a run ever failed, or was under way when all was interrupted: it is tried again."""
        self.failure(run).unlink(missing_ok=True)
        self.end(run)

    # ---- which runs are under way, so that one that takes its process with it can be named ---------------------------

    def begin(self, run: Run) -> None:
        """Note that a run is under way."""
        write_atomically(self.folder / "running" / run.key, b"")

    def end(self, run: Run) -> None:
        """Note that it is not any more."""
        (self.folder / "running" / run.key).unlink(missing_ok=True)

    def is_running(self, run: Run) -> bool:
        """Whether it began and did not end."""
        return (self.folder / "running" / run.key).exists()


def _check_result(result: Any) -> None:
    """Refuse a result that the figure, the tables and the images could not be made from."""
    kinds: dict[str, tuple[type, ...]] = {"measures": (dict,), "converged": (bool,), "warnings": (list,), "predictions": (dict,)}
    if not isinstance(result, dict) or "measures" not in result:
        raise ValueError("it has no measures")
    for name, allowed in kinds.items():
        if name in result and not isinstance(result[name], allowed):
            raise ValueError(f"its entry {name!r} is of type {type(result[name]).__name__}")
    for name, value in ({"loss": ""} | result["measures"]).items():
        if (value is not None or name == "loss") and type(value) not in (int, float):
            raise ValueError(f"its measure {name!r} is not a number")
    if "predictions" in result:
        found = result["predictions"]
        lists = [found.get("y"), found.get("h"), found.get("p") or []]
        if not all(isinstance(values, list) and all(type(v) in (int, float) for v in values) for values in lists):
            raise ValueError("its predictions are not lists of numbers")


@cache
def code_digest() -> str:
    """A hash of the code that decides what is learned: results of other code can be told from those of this.

    >>> len(code_digest())
    16
    """
    package, key = Path(__file__).resolve().parents[1], hashlib.sha256()
    learning = [package / part for part in ("losses", "distributions", "solvers", "learners", "metrics")]
    files = [*package.glob("*.py"), *(path for folder in learning for path in folder.rglob("*.py"))]
    for path in sorted(files):
        key.update(f"{path.relative_to(package).as_posix()} ".encode() + path.read_bytes())
    return key.hexdigest()[:16]


# What it took: time and memory of every call that did runs, kept beside the results.


@dataclass(frozen=True)
class Session:
    """One call: how many runs it did, in what time, with how much memory in its processes together (an upper bound).

    >>> print(Session(210, 90.0, 3 << 30, 2))
    210 runs in 1 min 30 s in 2 processes; with the one that started them they held at most 3.0 GB, what they share counted in each
    """

    runs: int
    seconds: float
    peak: int
    processes: int

    def __str__(self) -> str:
        held = f"held at most {self.peak / 2**30:.1f} GB"
        told = f"{self.runs} runs in {duration(self.seconds)} in"
        if self.processes == 1:
            return f"{told} one process, which {held}"
        return f"{told} {self.processes} processes; with the one that started them they {held}, what they share counted in each"


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(4.2), duration(90), duration(7300)
    ('4 s', '1 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def keep(folder: Path, session: Session, about: dict[str, Any]) -> None:
    """One more entry in `sessions.json`."""
    entries = _entries(folder)
    entry = {"date": f"{datetime.now():%Y-%m-%d %H:%M}", **session.__dict__, **about}
    write_atomically(folder / "sessions.json", json.dumps([*entries, entry], indent=1).encode())


def total(folder: Path) -> Session | None:
    """All calls together: their runs, their time, the most memory and processes; None where none was kept.

    >>> total(Path("nowhere")) is None
    True
    """
    entries = _entries(folder)
    if not entries:
        return None
    runs, seconds = (sum(entry[name] for entry in entries) for name in ("runs", "seconds"))
    return Session(runs, seconds, max(entry["peak"] for entry in entries), max(entry["processes"] for entry in entries))


def _entries(folder: Path) -> list[dict[str, Any]]:
    path = folder / "sessions.json"
    try:
        entries = read_json(path) if path.exists() else []
        numbers = ("runs", "seconds", "peak", "processes")
        if not isinstance(entries, list) or not all(type(entry[name]) in (int, float) for entry in entries for name in numbers):
            raise ValueError(f"{path} must hold a list of sessions, but it does not")
        return entries
    except (ValueError, KeyError, TypeError) as error:  # it only says how long the runs took
        log.warning("what the runs took so far is forgotten, since %s is damaged: %s", path, error)
        return []
