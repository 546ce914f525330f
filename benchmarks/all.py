"""All benchmarks that take minutes, one after the other, into one page: what `make bench` runs.

Each runs in a process of its own. What they print goes, with the machine and the date, to logs/bench/BENCHMARKS.md and, as data, to
logs/bench/benchmarks.json; curves go beside them. Those that need the mammals are left out, and named, where LVMDC_DATA has none.

    python benchmarks/all.py [folder, logs/bench]
"""

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import psutil
import torch
from growth import AXES, METHODS, exponent
from tqdm import tqdm

HERE = Path(__file__).parent
MAMMALS = Path(os.environ.get("LVMDC_DATA", "data")) / "mammals" / "hog.npz"
PAGES = {  # script and its arguments → what it shows, and whether it needs the mammals
    "lsvm_passes.py 1": ("A latent SVM: cost in scoring passes by solver, beside published figures", True),
    "fresh_process.py": ("The same in a fresh process: what a first training on a compiled machine waits for", True),
    "c_path.py": ("DISC in scoring passes; a path over seven C beside single trainings", True),
    "plain.py": ("A plain one-slack cutting plane, packed and padded", True),
    "solvers.py": ("The solvers of (14): time to a gap", True),
    "one_candidate.py": ("Nothing latent: LinearSVC", False),
    "loss_rates.py": ("Expected loss and self-diversity beside a bare product", False),
    "ranks.py": ("One rank against two", False),
    "memory.py": ("A million candidates on disk: what the process holds", False),
    "growth.py {folder}/growth.json": ("Growth over n, |H|, d and K", False),
}


def machine() -> str:
    """What it ran on, in a line."""
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = psutil.virtual_memory().total / 2**30
    cuda = "CUDA" if torch.cuda.is_available() else "no CUDA device"
    processor = names[0] if names else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GB, {cuda}; torch {torch.__version__}, Python {platform.python_version()}"


def draw(rows: list[dict], path: Path) -> None:
    """Time over size for each axis, log scales, with the exponents."""
    figure, axes = plt.subplots(1, len(AXES), figsize=(4 * len(AXES), 3.4), layout="constrained")
    for plot, axis in zip(axes, AXES, strict=True):
        for method in METHODS:
            own = [row for row in rows if (row["axis"], row["method"]) == (axis, method)]
            sizes, seconds = [row["size"] for row in own], [row["seconds"] for row in own]
            plot.loglog(sizes, seconds, marker="o", label=f"{method}: {exponent(sizes, seconds):.2f}")
        plot.set(xlabel="|H|" if axis == "H" else axis, ylabel="CPU seconds")
        plot.legend(title="exponent at the end", fontsize="small")
        plot.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "logs/bench")
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    text, found = [f"# Benchmarks\n\n{date}, `make bench`: {machine()}. One core unless said; CPU time; ratios are within one run.\n"], []
    for page, (title, needs) in tqdm(PAGES.items(), unit="benchmark"):
        command = page.format(folder=folder)
        if needs and not MAMMALS.is_file():
            tqdm.write(f"left out, {MAMMALS} does not exist: {command}")
            continue
        began = time.perf_counter()
        ran = subprocess.run([sys.executable, *f"{HERE}/{command}".split()], capture_output=True, text=True, check=False)
        if ran.returncode:
            sys.exit(f"error: python benchmarks/{command} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        seconds = time.perf_counter() - began
        found.append({"command": command, "title": title, "seconds": seconds, "output": ran.stdout, "date": date, "machine": machine()})
        text.append(f"## {title}\n\n`python benchmarks/{command}`, {seconds:.0f} s\n\n```\n{ran.stdout.rstrip()}\n```\n")
        tqdm.write(f"{title}\n{ran.stdout}")
    draw(json.loads((folder / "growth.json").read_text()), folder / "growth.png")
    text.append("![CPU seconds over n, |H|, d and K, log scales](growth.png)\n")
    (folder / "BENCHMARKS.md").write_text("\n".join(text), encoding="utf-8")
    (folder / "benchmarks.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"page    {folder / 'BENCHMARKS.md'}\ndata    {folder / 'benchmarks.json'}\ncurves  {folder / 'growth.png'}")


if __name__ == "__main__":
    main()
