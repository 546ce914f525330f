"""One HTML page about a run, to be kept, sent and read without anything else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from lvmdc.reporting.curves import NAMESPACE, line_chart
from lvmdc.reporting.page import escape, inline_image, page
from lvmdc.reporting.sheet import MEANINGS, swatch
from lvmdc.reporting.table import Table, results_table
from lvmdc.storage.files import write_atomically

History = Sequence[Mapping[str, float]]

# What the columns of a learner's history are called on the page.
NAMES = {
    "objective": "objective (11)",
    "data": "C × mean (ξ − βH)",
    "w_norm": "½‖w‖²",
    "theta_norm": "J/2 ‖θ‖²",
    "slack": "mean slack ξ",
    "diversity": "mean self-diversity H(θ)",
    "loss": "expected loss",
    "error": "class error",
    "entropy": "entropy of P_θ(h|x,y)",
    "gap": "duality gap",
}
TERMS = {"objective", "w_norm", "theta_norm"}


def write_report(
    path: str | Path,
    title: str,
    settings: Mapping[str, str],
    history: History,
    results: Table | Sequence[Mapping[str, object]],
    images: Sequence[tuple[str, Image.Image]],
    commands: Sequence[str],
) -> None:
    """Write a page that shows what was run, its results, how learning went and what it sees in images.

    Args:
        path: the file; it is replaced in one step, when the whole page is there.
        title: its heading.
        settings: the configuration, flattened: `method.C` → `10`.
        history: a row an iteration, as in `learner.history_`; what else it holds (`val_loss`) is shown too.
        results: a table, or rows for `results_table`.
        images: captions and images, such as those of `draw_detection`.
        commands: how to run it again, and what else to type.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     write_report(path, "A run", {"C": "1"}, [{"iteration": 1, "objective": 0.5}], [{"loss": 0.2}], [], ["make run"])
    ...     "<h1>A run</h1>" in path.read_text(encoding="utf-8")
    True
    """
    table = results if isinstance(results, Table) else results_table(results)
    sections = [
        ("What was run", _settings(settings)),
        ("Results", _wide(table.html()) if table.cells else _nothing("No results.")),
        ("Curves", _curves(history)),
        ("Images", _images(images)),
        ("How to reproduce", _commands(commands)),
    ]
    body = "\n".join(f"<section>\n<h2>{heading}</h2>\n{content}\n</section>" for heading, content in sections)
    write_atomically(path, page(title, body).encode())


def _settings(settings: Mapping[str, str]) -> str:
    rows = [{"setting": name, "value": str(value)} for name, value in settings.items()]
    if not rows:
        return _nothing("No settings were given.")
    return f"<details>\n<summary>{len(rows)} settings</summary>\n{_wide(results_table(rows).html(), 'settings')}\n</details>"


def _curves(history: History) -> str:
    """A chart for each kind of column that the history has, and all of its numbers below."""
    if not history:
        return _nothing("No iteration was recorded.")
    held = dict.fromkeys(name for row in history for name in row)
    losses = [name for name in held if name in ("loss", "error") or name.endswith(("_loss", "_error", "/loss", "/error"))]
    terms = [{**row, "data": row["objective"] - row["w_norm"] - row["theta_norm"]} if row.keys() >= TERMS else row for row in history]
    charts = [
        _chart(terms, "Objective and its terms", "value", ["objective", "data", "w_norm", "theta_norm"]),
        _chart(history, "Slack and self-diversity", "mean over samples", ["slack", "diversity"]),
        _chart(history, "Losses", "mean over samples", losses),
        _chart(history, "Posterior entropy", "nats", [name for name in held if name.endswith("entropy")]),
        _chart(history, "Convergence", "log scale", ["decrease", "gap"], log=True),
    ]
    numbers = _wide(results_table(history).html())
    table = f"<details>\n<summary>all numbers, {len(history)} iterations</summary>\n{numbers}\n</details>"
    return f'<div class="curves">\n{"".join(charts)}</div>\n{table}'


def _chart(history: History, title: str, ylabel: str, names: Sequence[str], log: bool = False) -> str:
    x = [row.get("iteration", i) for i, row in enumerate(history, start=1)]
    series = {NAMES.get(name, name): [row.get(name) for row in history] for name in names if any(name in row for row in history)}
    return line_chart(series, x, title, ylabel, log).replace(f"{NAMESPACE} ", "") + "\n" if series else ""


def _images(images: Sequence[tuple[str, Image.Image]]) -> str:
    if not images:
        return _nothing("No images.")
    figures = "\n".join(_figure(caption, image) for caption, image in images)
    legend = "".join(f"<li>{inline_image(swatch(kind), alt='')}{escape(text)}</li>" for kind, text in MEANINGS.items())
    return f'<ul class="legend">{legend}</ul>\n<div class="images">\n{figures}\n</div>'


def _figure(caption: str, image: Image.Image) -> str:
    strip = ' class="wide"' if image.width > 2 * image.height else ""  # which needs a line of its own
    return f"<figure{strip}>{inline_image(image, alt=caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def _commands(commands: Sequence[str]) -> str:
    return "\n".join(f"<pre><code>{escape(command)}</code></pre>" for command in commands) or _nothing("No commands were given.")


def _wide(content: str, kind: str = "") -> str:
    return f'<div class="{f"wide {kind}".strip()}">{content}</div>'


def _nothing(text: str) -> str:
    return f'<p class="faint">{text}</p>'
