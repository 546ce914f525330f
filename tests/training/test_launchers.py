"""A sweep by submitit, on this machine as on a cluster: every run in a job of its own, all of them in one table."""

import subprocess
import sys
from pathlib import Path

import pytest

from lvmdc.training.sweep import collect

ROOT = Path(__file__).resolve().parents[2]


def test_a_local_submitit_sweep_finishes_every_run(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    words = [
        sys.executable, str(ROOT / "scripts" / "train.py"), "-m", "hydra/launcher=submitit_local", "hydra.launcher.timeout_min=10",
        "experiment=minimal", "data.fold=0,1", "data.pictures.per_class=6", "method.max_iter=2", "callbacks=checkpoint", "logger=csv",
        "extras.progress=false", "extras.threads=1", "extras.report=false", f"paths.log_dir={tmp_path}",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (sweep,) = tmp_path.glob("*/sweeps/*")
    assert sorted(path.parent.name for path in sweep.glob("*/results.json")) == ["0", "1"]
    assert list((sweep / ".submitit").iterdir())  # it was submitit that ran them
    assert collect(sweep).cells[0][:2] == ["all", "2"]
