"""The results of many runs in one table: mean ± deviation over folds and seeds, a row per setting.

lvmdc table                                          # the newest sweep under logs/
lvmdc table logs/object_detection/sweeps/SWEEP       # any folder of runs
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import yaml

from lvmdc.cli.report import NAMES
from lvmdc.reporting import Table, results_table
from lvmdc.storage.files import read_json, read_text

BRACKETS = 500  # in a list of settings; YAML takes long to read deep nesting
REPEATS = ("data.fold", "seed", "method.seed", "data.split_seed")  # what makes a repetition, not another setting


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc table`, and scripts/table.py."""
    words = sys.argv[1:] if words is None else words
    if {"-h", "--help"} & {*words}:
        print((__doc__ or "").strip())  # noqa: T201
        return
    newest = sorted(Path("logs").glob("*/sweeps/*"), key=lambda path: path.stat().st_mtime)
    if not words and not newest:
        sys.exit("error: there is no sweep under logs/; name a folder of runs")
    folder = Path(words[0]) if words else newest[-1]
    try:
        table = collect(folder)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{folder}\n\n{table.text()}")  # noqa: T201


def collect(folder: str | Path) -> Table:
    """A row for each setting of a sweep, mean ± deviation over its repetitions; unfinished runs are left out."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be a folder of runs, but it {'is a file' if folder.exists() else 'does not exist'}")
    rows = []
    for path in sorted(folder.rglob("results.json")):
        words = read_overrides(path.parent / ".hydra" / "overrides.yaml")
        rows.append({"words": tuple(sorted(word for word in words if word.split("=")[0] not in REPEATS))} | read_results(path))
    if not rows:
        raise ValueError(f"{folder} holds no finished run: none of its folders has a results.json")
    runs = pd.DataFrame(rows)
    common = set.intersection(*map(set, runs["words"]))
    runs["setting"] = [" ".join(word for word in words if word not in common) or "all" for words in runs["words"]]
    groups = runs.groupby("setting", sort=False)
    table = pd.DataFrame({"runs": groups.size()})
    for name, title in NAMES.items():
        if f"test/{name}" in runs:
            found = 100 * groups[f"test/{name}"].agg(["mean", "std"])
            cells = [_cell(mean, std) for mean, std in found.itertuples(index=False)]
            table[f"{title} %"] = pd.Series(cells, index=table.index, dtype=object)
    return results_table([{str(name): value for name, value in row.items()} for row in table.reset_index().to_dict("records")])


def _cell(mean: float, std: float) -> float | tuple[float, float] | None:
    """A mean and its deviation, or one of a single run alone."""
    return None if pd.isna(mean) else mean if pd.isna(std) else (mean, std)


def read_results(path: Path) -> dict[str, float]:
    """The measures that a run left behind, names and numbers; what is null there was not measured."""
    found = read_json(path)
    if not isinstance(found, dict) or not all(value is None or type(value) in (int, float) for value in found.values()):
        raise ValueError(f"{path} must hold names and numbers, as a finished run writes them, but it does not")
    return {name: float(value) for name, value in found.items() if value is not None}


def read_overrides(path: Path) -> list[str]:
    """The words of a run's command line, from the list that Hydra keeps of them."""
    text = read_text(path)
    try:
        if sum(text.count(bracket) for bracket in "[{") > BRACKETS:
            raise ValueError(f"it has more than {BRACKETS} brackets")
        if any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("it has references, which may expand to many times their size")
        words = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a list of settings, as Hydra writes it, but: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(words, list) or not all(isinstance(word, str | int | float) for word in words):
        raise ValueError(f"{path} must be a list of settings, as Hydra writes it, but it is not")
    return [str(word) for word in words]
