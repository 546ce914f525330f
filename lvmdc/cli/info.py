"""What a report of a problem needs: versions, devices, the data sets that are found, the size of the cache.

lvmdc info
LVMDC_DATA=~/data lvmdc info        # data sets in another folder than data/
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lvmdc.cli.config import CONFIGS
from lvmdc.reporting.record import describe_run

DATA = "${paths.data_dir}/"
CACHE = Path("logs", "cache")  # paths.cache_dir, unless the command line of a run says otherwise


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc info`."""
    print((__doc__ or "").strip() if words else "\n".join(lines()))  # noqa: T201


def print_version() -> None:
    """`lvmdc --version`."""
    print(f"lvmdc {version('lvmdc')}")  # noqa: T201


def lines() -> Iterator[str]:
    """What `lvmdc info` prints."""
    run = describe_run()
    yield from table({"python": f"{run['python']} on {run['platform']}"} | run["versions"])
    yield ""
    yield from table(dict(devices()) | {"configurations": str(CONFIGS)})
    folder = Path(os.environ.get("LVMDC_DATA") or "data")
    yield f"\nData sets under {folder}{'' if os.environ.get('LVMDC_DATA') else ' (LVMDC_DATA is not set)'}:"
    yield from table({name: "found" if place.exists() else f"not found: {place}" for name, place in data_sets(folder).items()})
    files = [path for path in CACHE.rglob("*") if path.is_file()] if CACHE.is_dir() else []
    yield f"\nCache: {CACHE.resolve()}, {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


def table(rows: dict[str, Any]) -> Iterator[str]:
    """Names and values in two columns.

    >>> list(table({"torch": "2.4", "piqp": None}))
    ['  torch  2.4', '  piqp   not installed']
    """
    width = max(map(len, rows))
    return (f"  {name:<{width}}  {'not installed' if value is None else value}" for name, value in rows.items())


def devices() -> Iterator[tuple[str, str]]:
    """What torch can compute on."""
    import psutil
    import torch

    free = psutil.virtual_memory().available / 1e9
    yield "cpu", f"{psutil.cpu_count()} cores, {torch.get_num_threads()} threads of torch, {free:.1f} GB of memory free"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield "cuda", ", ".join(names) or "none"
    yield "mps", "available" if torch.backends.mps.is_available() else "none"


def data_sets(folder: Path) -> dict[str, Path]:
    """The data sets on disk that a configuration names, and where each should be.

    >>> str(data_sets(Path("data"))["mammals"])
    'data/mammals'
    """
    from omegaconf import OmegaConf

    found = {}
    for path in sorted((CONFIGS / "data").glob("*.yaml")):
        parts = [part for part in OmegaConf.to_container(OmegaConf.load(path)).values() if isinstance(part, dict)]  # type: ignore[union-attr]
        places = [str(part["path"]).removeprefix(DATA) for part in parts if str(part.get("path")).startswith(DATA)]
        for place in places:
            year = next((str(part["year"]) for part in parts if "year" in part), None)
            found[path.stem] = folder / place / f"VOC{year}" if year else folder / place
    return found
