"""docs/RESULTS.md, written from results: a section for each figure, between markers."""

from __future__ import annotations

from pathlib import Path

from lvmdc.reporting.files import write_atomically
from lvmdc.storage import read_text

HEAD = """# Results

Written by `python scripts/reproduce.py figure=… publish=docs` from the runs themselves; edits between the markers are lost.
"""


def publish(folder: str | Path, name: str, section: str, chart: bytes | None = None) -> Path:
    """Write the section of that name into `RESULTS.md`, in the place of the one before or at the end, and its chart as `<name>.png`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as docs:
    ...     for text in ("first", "second"):
    ...         path = publish(docs, "figure_1", text, b"png")
    ...     "first" in path.read_text(), "second" in path.read_text()
    (False, True)
    """
    folder = Path(folder)
    path = folder / "RESULTS.md"
    text = read_text(path) if path.exists() else HEAD
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    written = f"{first}\n{section.strip()}\n{last}"
    if text.count(first) != text.count(last) or text.count(first) > 1 or text.find(last) < text.find(first):
        raise ValueError(f"{path} must hold {first} and {last} once, in this order, or not at all")
    before, there, rest = text.partition(first)
    text = before + written + rest.partition(last)[2] if there else f"{text.rstrip()}\n\n{written}\n"
    if chart is not None:
        write_atomically(folder / f"{name}.png", chart)
    write_atomically(path, text.encode())
    return path
