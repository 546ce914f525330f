"""HOG, a small CNN with random weights, and the same CNN learned with w and θ: the embedded digits, other images for every seed.

Each row is a command of scripts/train.py; the network's settings were chosen on seeds 1 to 4.

    python benchmarks/learned_digits.py [seeds …, 0 5 6 7 8]
"""

import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from record import record
from tqdm import tqdm

from lvmdc.cli import config as resolvers
from lvmdc.cli.train import train
from lvmdc.reporting import Table

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
ROWS = {
    "HOG": ["experiment=object_detection"],
    "HOG, ground-truth boxes": ["experiment=object_detection", "method=supervised"],
    "CNN, random weights": ["experiment=object_detection_cnn", "module.frozen_epochs=1", "trainer.max_epochs=1"],
    "CNN, learned": ["experiment=object_detection_cnn"],
}
QUIET = ["extras.progress=false", "extras.report=false", "extras.threads=1", "callbacks=none", "logger=csv"]
COLUMNS = {"test/loss": "overlap loss %", "test/error": "class error %", "test/corloc": "CorLoc %"}


def measured(overrides: list[str], seed: int, folder: str) -> dict[str, float]:
    """What one training has on the test part, and its CPU time."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        places = [f"paths.output_dir={folder}", f"paths.log_dir={folder}"]
        cfg = compose("train", overrides=[*overrides, *QUIET, *places, f"data.images.seed={seed}"])
    started = time.process_time()
    return train(cfg) | {"seconds": time.process_time() - started}


def main() -> None:
    seeds = [int(word) for word in sys.argv[1:]] or [0, 5, 6, 7, 8]
    torch.set_num_threads(1)
    resolvers.register()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    found: dict[str, list[list[float]]] = {name: [] for name in ROWS}
    bar = tqdm([(seed, name) for seed in seeds for name in ROWS], unit="training")
    for seed, name in bar:
        bar.set_postfix_str(f"{name}, seed {seed}")
        with tempfile.TemporaryDirectory() as folder:
            values = measured(ROWS[name], seed, folder)
        record(features=name, seed=seed, **values)
        found[name].append([*(100 * values[column] for column in COLUMNS), values["seconds"]])
    rows = []
    for name, several in found.items():
        mean, deviation = np.mean(several, axis=0), np.std(several, axis=0, ddof=1 if len(several) > 1 else 0)
        cells = [f"{one:.1f} ± {other:.1f}" for one, other in zip(mean[:-1], deviation[:-1], strict=True)]
        rows.append([name, *cells, f"{mean[-1]:.0f}"])
    print(Table(["features", *COLUMNS.values(), "CPU s"], rows, [False] + [True] * 4).text())


if __name__ == "__main__":
    main()
