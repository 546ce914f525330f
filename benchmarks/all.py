"""All benchmarks that take about a minute, one after the other, into one page: what `make bench` runs.

Each runs in a process of its own. What they print goes, with the machine and the date, to logs/bench/BENCHMARKS.md, the numbers in it to
logs/bench/benchmarks.json, and curves beside them. Those that need the mammals are left out, and named, where LVMDC_DATA has none; those
that take longer are named at the end of the page.

    python benchmarks/all.py [folder, logs/bench]
"""

import ast
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from record import WHERE, recorded
from tqdm import tqdm

HERE = Path(__file__).parent
MAMMALS = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals" / "hog.npz"
HEAD = """One core unless said; CPU time; ratios are within one run.

A pass, the unit of `cost`, is torch's `features @ W.T` on the packed features of the training part. The package's own compiled product
takes about half of that (`lsvm_passes.py` prints both): the floor of a training that makes P passes is a cost of about P / 2."""


class Page(NamedTuple):
    """A script with its arguments, what it shows, what it draws into the folder, and whether it needs the mammals."""

    command: str
    title: str
    image: str = ""
    mammals: bool = False


PAGES = [
    Page("lsvm_passes.py 1", "A latent SVM: cost in scoring passes by solver, beside published figures", mammals=True),
    Page("likelihood_start.py", "The default start: cost in scoring passes", mammals=True),
    Page("fresh_process.py 3", "The same in a fresh process: what a first training on a compiled machine waits for", mammals=True),
    Page("c_path.py 3 3", "DISC in scoring passes; a path over seven C beside single trainings", mammals=True),
    Page("plain.py", "A plain one-slack cutting plane, packed and padded", mammals=True),
    Page("solvers.py 10 {image}", "The solvers of (14): time to a gap, LSVM and DISC", "solvers.png", mammals=True),
    Page("one_candidate.py", "Nothing latent: LinearSVC"),
    Page("loss_rates.py", "Expected loss and self-diversity beside a bare product"),
    Page("devices.py", "CPU against CUDA"),
    Page("end_to_end.py 20 100 500 --images 2", "A step of learning end to end, an image"),
    Page("ranks.py", "One rank against two"),
    Page("memory.py", "A million candidates on disk: what the process holds"),
    Page("growth.py {image}", "Growth over n, |H|, d and K", "growth.png"),
]


def machine() -> str:
    """What it ran on, in a line."""
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = psutil.virtual_memory().total / 2**30
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    processor = names[0] if names else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GB, {cuda}; torch {torch.__version__}, Python {platform.python_version()}"


def run(command: str) -> tuple[str, dict[str, Any]]:
    """What a script printed, and its seconds and rows of numbers."""
    with tempfile.TemporaryDirectory() as name:
        rows, began = Path(name) / "rows.jsonl", time.perf_counter()
        ran = subprocess.run(
            [sys.executable, *f"{HERE}/{command}".split()], capture_output=True, text=True, check=False, env=os.environ | {WHERE: str(rows)}
        )
        if ran.returncode:
            sys.exit(f"error: python benchmarks/{command} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        return ran.stdout.rstrip(), {"command": command, "seconds": time.perf_counter() - began, "rows": recorded(rows)}


def others() -> str:
    """The benchmarks that have no page, each with its command: those whose first words say how they are called."""
    lines = []
    for path in sorted(HERE.glob("*.py")):
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if f"python benchmarks/{path.name}" in words and path.name not in {"all.py", *(page.command.split()[0] for page in PAGES)}:
            lines.append(f"- `python benchmarks/{path.name}`: {words.splitlines()[0]}")
    return "## Those that take longer\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "logs/bench")
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    text, found = [f"# Benchmarks\n\n{date}, `make bench`: {machine()}. {HEAD}\n"], []
    for page in tqdm(PAGES, unit="benchmark"):
        command = page.command.format(image=folder / page.image)
        if page.mammals and not MAMMALS.is_file():
            tqdm.write(f"left out, {MAMMALS} does not exist: {command}")
            continue
        printed, numbers = run(command)
        found.append({"title": page.title, **numbers})
        text.append(f"## {page.title}\n\n`python benchmarks/{command}`, {numbers['seconds']:.0f} s\n\n```\n{printed}\n```\n")
        if page.image:
            text.append(f"![{page.title}]({page.image})\n")
        tqdm.write(f"{page.title}\n{printed}\n")
    (folder / "BENCHMARKS.md").write_text("\n".join([*text, others()]), encoding="utf-8")
    data = {"date": date, "machine": machine(), "benchmarks": found}
    (folder / "benchmarks.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    images = ", ".join(str(folder / page.image) for page in PAGES if (folder / page.image).is_file())
    print(f"page    {folder / 'BENCHMARKS.md'}\ndata    {folder / 'benchmarks.json'}\ncurves  {images}")


if __name__ == "__main__":
    main()
