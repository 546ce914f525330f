"""Results on disk: one JSON a run, which is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cache
from pathlib import Path
from typing import Any

from lvmdc.reporting.files import write_atomically
from lvmdc.reproduction.run import FORMAT, Run
from lvmdc.storage import read_json

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
    """Refuse a result that the figure, the tables and the pictures could not be made from."""
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
