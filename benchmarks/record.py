"""Rows of numbers from a benchmark as lines of JSON, appended to the file named by LVMDC_BENCH_ROWS, which `all.py` sets."""

import json
import os
from pathlib import Path
from typing import Any

WHERE = "LVMDC_BENCH_ROWS"


def record(**row: Any) -> None:
    """Append a row, if the environment names a file."""
    if path := os.environ.get(WHERE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=float) + "\n")  # numbers of numpy and torch as plain ones


def recorded(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, in order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
