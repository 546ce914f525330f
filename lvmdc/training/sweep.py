"""The results of many runs in one table: means and deviations over folds and seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from lvmdc.reporting import Table, results_table
from lvmdc.training.finish import NAMES

REPEATS = ("data.fold", "seed", "method.seed", "data.split_seed")  # what makes a repetition, not another setting


def collect(folder: str | Path) -> Table:
    """A row for every setting of a sweep, (mean, deviation) over its repetitions; runs that did not finish are counted out."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist")
    groups: dict[tuple[str, ...], list[dict[str, float]]] = defaultdict(list)
    for results in sorted(folder.rglob("results.json")):
        overrides = [str(word) for word in OmegaConf.load(results.parent / ".hydra" / "overrides.yaml")]
        setting = tuple(sorted(word for word in overrides if word.split("=")[0] not in REPEATS))
        groups[setting].append(json.loads(results.read_text(encoding="utf-8")))
    if not groups:
        raise ValueError(f"{folder} holds no finished run: none of its folders has a results.json")
    common = set.intersection(*(set(setting) for setting in groups))
    rows: list[dict[str, object]] = []
    for setting, found in groups.items():
        row: dict[str, object] = {"setting": " ".join(w for w in setting if w not in common) or "all", "runs": len(found)}
        for name, title in (NAMES | {"ap": "AP"}).items():
            values = [100 * run[f"test/{name}"] for run in found if f"test/{name}" in run]
            if values:
                mean = float(np.mean(values))
                row[f"{title} %"] = (mean, float(np.std(values, ddof=1))) if len(values) > 1 else mean
        rows.append(row)
    return results_table(rows)
