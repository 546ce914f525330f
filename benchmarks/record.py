"""Rows of numbers beside what a benchmark prints: lines of JSON, appended to the file that LVMDC_BENCH_ROWS names, as `all.py` asks for."""

import json
import os
from pathlib import Path
from typing import Any

WHERE = "LVMDC_BENCH_ROWS"


def record(**row: Any) -> None:
    """Keep a row; nothing happens where nobody asked for it."""
    if path := os.environ.get(WHERE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=float) + "\n")  # numbers of numpy and torch as plain ones


def recorded(path: Path) -> list[dict[str, Any]]:
    """The rows that were kept, in their order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
