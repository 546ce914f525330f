"""HTML pages that need nothing else: the report of a run, and any page of sections in the same style."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from PIL import Image

from lvmdc.reporting.drawing import MEANINGS, png
from lvmdc.reporting.figures import inline_svg, line_chart
from lvmdc.reporting.glossary import explain, glossary, shown
from lvmdc.reporting.table import Table, printable, results_table
from lvmdc.storage.files import write_atomically

History = Sequence[Mapping[str, float]]

OWN = (
    "The expected loss compares predictions for the training samples with P_θ, the model's own belief about h. It is small where the model"
    " agrees with itself, right or wrong. The losses in the table of results compare predictions with ground truth."
)
TERMS = {"objective", "w_norm", "theta_norm"}


def write_report(
    path: str | Path,
    title: str,
    settings: Mapping[str, str],
    history: History,
    results: Table | Sequence[Mapping[str, object]],
    images: Sequence[tuple[str, Image.Image]],
    commands: Sequence[str],
    notes: Sequence[str] = (),
    meanings: Sequence[str] = tuple(MEANINGS),
) -> None:
    """Write a page that shows what was run, its results, how learning went and what it sees in images.

    Args:
        path: the file; it is replaced in one step.
        title: its heading.
        settings: the configuration, flattened: `method.C` → `10`.
        history: a row per iteration, as in `learner.history_`; what else it holds (`val_loss`) is shown too.
        results: a table, or rows for `results_table`.
        images: captions and images, such as those of `draw_detection`.
        commands: how to run it again, and what else to type.
        notes: what to know about the results, or why there are none.
        meanings: what the legend of the images explains, keys of the glossary's section on images.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     write_report(path, "A run", {"C": "1"}, [{"iteration": 1, "objective": 0.5}], [{"loss": 0.2}], [], ["make run"])
    ...     "<h1>A run</h1>" in path.read_text(encoding="utf-8")
    True
    """
    table = results if isinstance(results, Table) else results_table(results)
    chosen = results_table([{"setting": name, "value": str(value)} for name, value in settings.items()])
    shown_results = {"tables": [table] if table.cells else [], "tiles": _tiles(history), "notes": notes}
    parts = {
        "Results": shown_results if any(shown_results.values()) else None,
        "Images": {"images": images, "legend": [_legend(kind) for kind in meanings]} if images else None,
        "Curves": _curves(history) if history else None,
        "What was run": {"folded": chosen, "summary": f"{len(settings)} settings"} if settings else None,
        "How to reproduce": {"commands": commands} if commands else None,
    }
    empty = {"text": "There is nothing to show.", "faint": True}
    write_page(path, title, [{"heading": heading} | (content or empty) for heading, content in parts.items()])


def write_page(path: str | Path, title: str, sections: Sequence[Mapping[str, Any]]) -> None:
    """Write a page with these sections, in one step.

    A section may have a `heading`, a `text` (`faint` or not), `charts` (title and svg), `tables`, `tiles` (name and value), a `folded`
    table below its `summary`, `images` with captions below their `legend`, one `sheet`, `commands` and `notes`, shown in this order. What
    the glossary explains has a tooltip.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder, "a.html"), "A & B", [{"heading": "<b>", "notes": ["one"]}])
    ...     "<h2>&lt;b&gt;</h2>" in Path(folder, "a.html").read_text(encoding="utf-8")
    True
    """
    write_atomically(path, _template().render(title=title, sections=sections).encode())


@cache
def _template() -> Any:
    def text(value: Any) -> Any:
        return printable(value, keep="\t\n") if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = PackageLoader("lvmdc", "reporting")
    environment = Environment(loader=loader, autoescape=True, finalize=text, trim_blocks=True, lstrip_blocks=True)
    # Markup: base64 needs no escape, and to look for control characters in all of it would take longer than to draw the page.
    environment.filters["data_uri"] = lambda image: Markup("data:image/png;base64," + base64.b64encode(png(image)).decode())
    environment.filters["explain"] = explain
    return environment.get_template("page.html.jinja")


def _legend(kind: str) -> tuple[str, str, str]:
    """What a line or colour is called, and what it means."""
    number = glossary()["Images"][kind]
    return kind, MEANINGS.get(kind, number.name), number.meaning


def _tiles(history: History) -> list[tuple[str, str]]:
    """How training ended: names and values."""
    if not history:
        return []
    last, seconds = history[-1], sum(row.get("seconds", 0.0) for row in history)
    ended = {"iteration": len(history)} | {name: last[name] for name in ("objective", "loss", "entropy", "gap", "passes") if name in last}
    return [(shown(name), f"{value:.4g}") for name, value in ended.items()] + ([("time (s)", f"{seconds:.3g}")] if seconds else [])


def _curves(history: History) -> dict[str, Any]:
    held = list(dict.fromkeys(name for row in history for name in row))
    losses = [name for name in held if name in ("loss", "error") or name.endswith(("_loss", "_error", "/loss", "/error"))]
    terms = [{**row, "data": row["objective"] - row["w_norm"] - row["theta_norm"]} if row.keys() >= TERMS else row for row in history]
    charts = [
        _chart(terms, "Objective and its terms", "value", ["objective", "data", "w_norm", "theta_norm"]),
        _chart(history, "Slack and self-diversity", "mean over samples", ["slack", "diversity"]),
        _chart(history, "Losses", "mean over samples, 0 to 1", losses),
        _chart(history, "Uncertainty of h", "nats", [name for name in held if name.endswith("entropy")]),
        _chart(history, "Convergence", "value, log scale", ["decrease", "gap"], log=True),
    ]
    return {
        "charts": [chart for chart in charts if chart],
        "folded": results_table(history, {name: shown(name) for name in held}),
        "summary": f"all numbers, {len(history)} iterations",
        "notes": [OWN] if "loss" in held else [],
    }


def _chart(history: History, title: str, ylabel: str, names: Sequence[str], log: bool = False) -> dict[str, str]:
    x = [row.get("iteration", i) for i, row in enumerate(history, start=1)]
    series = {printable(shown(name)): [row.get(name) for row in history] for name in names if any(name in row for row in history)}
    svg = inline_svg(line_chart(series, x, title, ylabel, log), {name: explain(name) for name in series}) if series else ""
    return {"title": title, "svg": Markup(svg)} if svg else {}
