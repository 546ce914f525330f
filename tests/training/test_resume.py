"""A killed run loses at most one outer iteration, and ends in the numbers of an unbroken one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = [
    "experiment=object_detection", "method=lsvm", "method.init=random", "method.C=10", "method.tol=0.0001", "data.pictures.per_class=25",
    "callbacks=checkpoint", "logger=csv", "extras.progress=false", "extras.threads=1",
]  # fmt: skip


def command(*extra: str) -> list[str]:
    return [sys.executable, str(ROOT / "scripts" / "train.py"), *OVERRIDES, *extra]


def run(folder: Path, *extra: str) -> str:
    done = subprocess.run(command(f"paths.log_dir={folder}", *extra), capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def history(checkpoint: Path) -> list[dict[str, float]]:
    return torch.load(checkpoint, weights_only=True)["lvmdc"]["learned"]["history"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    run(folder)
    return history(only(folder, "*/runs/*/checkpoints/last.ckpt"))


def test_run_killed_in_mid_training_resumes_to_the_same_objective(tmp_path, unbroken):
    assert len(unbroken) >= 3, "the problem is too easy to be interrupted"
    process = subprocess.Popen(command(f"paths.log_dir={tmp_path}"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob("*/runs/*/checkpoints/last.ckpt")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    checkpoint = only(tmp_path, "*/runs/*/checkpoints/last.ckpt")
    before = history(checkpoint)
    assert 1 <= len(before) < len(unbroken)
    shown = run(tmp_path, f"ckpt_path={checkpoint}")
    after = history(only(tmp_path, "*/runs/*/checkpoints/last.ckpt"))  # `only`: it went back to its own folder
    assert len(after) == len(unbroken)
    assert after[-1]["objective"] == pytest.approx(unbroken[-1]["objective"], abs=1e-6)
    assert str(checkpoint.parent.parent) in shown
    assert len(json.loads((checkpoint.parent.parent / "run.json").read_text())) == 2
    assert not [p for p in tmp_path.rglob("*") if p.suffix == ".tmp"]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_interrupted_run_says_how_to_go_on(tmp_path, signum, code):
    process = subprocess.Popen(
        command(f"paths.log_dir={tmp_path}"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signum, signal.SIG_DFL),  # a shell's background jobs pass on that they ignore Ctrl-C
    )
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob("*/runs/*/checkpoints/last.ckpt")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signum)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == code
    assert "To go on:" in shown
    assert "last.ckpt" in shown
