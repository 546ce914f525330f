"""The way of a run through the package, as a reader would follow it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.ranks]
MOST = 30  # files that the command line and Lightning's side call; the algorithm and its tools are below them


@pytest.fixture(scope="module")
def way(tmp_path_factory) -> dict[str, str]:
    """Each file that a small run enters, in order, and the file that called it."""
    words = ["experiment=object_detection", "data.images.per_class=4", "method.max_iter=1", "method.tol=0.5", "extras.progress=false"]
    command = [sys.executable, str(ROOT / "tests" / "way.py"), *words]
    folder = tmp_path_factory.mktemp("way")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, check=True, env={"PYTHONPATH": str(ROOT)})
    rows = [line.split() for line in done.stdout.splitlines() if line[:3].strip().isdecimal() and ".py" in line]
    return {row[1]: row[-1] for row in rows}


def layer(file: str) -> int:
    """From the top, as the contract of the layers counts them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    module = f"lvmdc.{file.removesuffix('.py').replace('/', '.')}."
    (found,) = [i for i, row in enumerate(contracts[0]["layers"]) if any(module.startswith(f"{name}.") for name in row.split(" | "))]
    return found


def test_a_run_starts_in_the_command_line_and_no_layer_calls_back_up(way):
    assert next(iter(way)) == "cli/train.py"
    called_up = [(file, caller) for file, caller in way.items() if caller.endswith(".py") and layer(caller) > layer(file)]
    assert not called_up


def test_the_steps_of_a_run_are_in_few_files(way):
    steps = [file for file, caller in way.items() if caller.startswith(("cli/", "lightning/")) or file.startswith(("cli/", "lightning/"))]
    assert len(steps) <= MOST, steps
