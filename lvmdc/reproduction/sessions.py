"""What it took: time and memory of every call that did runs, kept beside the results."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lvmdc.reporting.files import write_atomically
from lvmdc.storage import read_json

log = logging.getLogger(__name__)


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
