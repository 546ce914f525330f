"""Results as a table: one structure, shown in a terminal, in Markdown or on an HTML page."""

import html
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from tabulate import tabulate

MISSING = "–"
SIGNIFICANT = 4  # digits of a column's largest number; the rest of the column has as many decimals


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; columns that are `numeric` are aligned to the right.

    >>> table = Table(["method", "loss"], [["DISC", "42.3 %"], ["LSVM", "44.9 %"]], [False, True])
    >>> print(table.text())
    method      loss
    --------  ------
    DISC      42.3 %
    LSVM      44.9 %
    """

    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    numeric: Sequence[bool]

    def text(self) -> str:
        """Aligned columns for a terminal; control characters, which could change its state, are shown as `�`."""
        return self._shown("simple", printable)

    def markdown(self) -> str:
        """A Markdown table, in which nothing of a cell is read as Markdown or HTML."""
        return self._shown("pipe", _markdown_escaped)

    def _shown(self, form: str, escaped: Callable[[str], str]) -> str:
        cells = [[escaped(cell) for cell in row] for row in self.cells]
        align = ["right" if numeric else "left" for numeric in self.numeric]
        return tabulate(cells, [escaped(head) for head in self.heads], form, colalign=align if cells else None, disable_numparse=True)


def results_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str] | Mapping[str, str] | None = None, percent: Collection[str] = ()
) -> Table:
    """A table of results, one row each.

    Numbers of a column have the same decimals, unless they are all as round as 0.25. A pair (mean, deviation) is shown as
    `mean ± deviation`, a missing value as a dash.

    Args:
        rows: what is known of each result, by name.
        columns: names of the columns in order, or a mapping of names to headings; all names, as they first appear, if not given.
        percent: names of the columns that hold fractions to be shown in percent.

    >>> rows = [{"method": "DISC", "C": 10, "loss": (0.4227, 0.031)}, {"method": "LSVM", "C": 1, "loss": 0.4493}]
    >>> print(results_table(rows, percent=["loss"]).text())
    method      C          loss
    --------  ---  ------------
    DISC       10  42.3 ± 3.1 %
    LSVM        1        44.9 %
    """
    if columns is None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
    heads = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    unknown = sorted(set(percent) - set(heads))
    if unknown:
        raise ValueError(f"percent must name columns of {list(heads)}, but it names {unknown[0]!r}")
    made = [_column([_plain(row.get(name)) for row in rows], name in percent) for name in heads]
    cells = [list(row) for row in zip(*(column for column, _ in made), strict=True)]
    return Table(list(heads.values()), cells, [numeric for _, numeric in made])


def printable(text: object, keep: str = "") -> str:
    """Text with `�` in place of control characters, but those in `keep`, and of what UTF-8 cannot hold.

    >>> printable("a\\x1b[31m")
    'a�[31m'
    """
    return "".join("�" if unicodedata.category(c)[0] == "C" and c not in keep else c for c in str(text))


def _plain(value: object) -> object:
    """Tensors and arrays of one number as that number."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _column(values: list[object], percent: bool) -> tuple[list[str], bool]:
    """The cells of a column, and whether it is one of numbers."""
    numbers = [_numbers(value) for value in values]
    shown = [v for pair in numbers for v in pair]
    spec, factor, unit = (".1f", 100.0, " %") if percent else (_spec(shown), 1.0, "")
    cells = [
        " ± ".join(format(factor * float(v), spec) for v in pair) + unit if pair else _words(value)
        for value, pair in zip(values, numbers, strict=True)
    ]
    return cells, bool(shown) and all(pair or value is None for value, pair in zip(values, numbers, strict=True))


def _numbers(value: object) -> list[Real]:
    """The number, or the mean and its deviation, that a value is; empty if it is no number."""
    parts = [_plain(v) for v in value] if isinstance(value, tuple) and len(value) == 2 else [value]
    numbers = [v for v in parts if isinstance(v, Real) and not isinstance(v, bool)]
    return numbers if len(numbers) == len(parts) else []


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return MISSING if value is None else str(value)


def _spec(values: list[Real]) -> str:
    if all(isinstance(v, Integral) for v in values):
        return ".0f"
    if all(float(v) == float(f"{float(v):.2g}") for v in values):  # settings such as C = 0.1, 1, 10: as they were written
        return "g"
    largest = max((abs(float(v)) for v in values if math.isfinite(v)), default=0.0)
    if largest and not 1e-3 <= largest < 1e7:
        return f".{SIGNIFICANT - 1}e"
    return f".{max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest or 1)))}f"


def _markdown_escaped(text: str) -> str:
    text = html.escape(printable(" ".join(text.split())), quote=False)
    return re.sub(r"([\\|*`\[\]])|(?<!\w)_|_(?!\w)", lambda match: "\\" + match[0], text)
