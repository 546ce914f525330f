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
from noise import hold_until
from processes import Script, train_script

from lvmdc.cli.train import train
from lvmdc.vision.features import HOG

pytestmark = [pytest.mark.slow, pytest.mark.ranks]

# β falls by a third an iteration from 0.5 to 0.1, and learning does not end before: every machine makes five iterations or more.
LEAST = 5
OVERRIDES = [
    "data=direct", "+data.samples._target_=noise.Noise", "+data.samples.signal=6.0", "method=disc", "method.init=uniform",
    "method.C=5", "method.tol=0.00001", "method.anneal=0.5", "method.beta=0.1", "callbacks=checkpoint", "logger=csv",
    "extras.progress=false", "extras.threads=1",
]  # fmt: skip


def interrupted(folder: Path, signum: int) -> Script:
    """A run that gets a signal after its first checkpoint, while it waits inside its second iteration."""
    script = train_script(folder, *OVERRIDES, *hold_until(folder / "never"))
    deadline = time.monotonic() + 240
    while not list(folder.glob("*/runs/*/checkpoints/last.ckpt")) and script.running and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(script.pid, signum)
    return script


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def history(checkpoint: Path) -> list[dict[str, float]]:
    return torch.load(checkpoint, weights_only=True)["lvmdc"]["learned"]["history"]


def test_run_killed_in_mid_training_resumes_to_the_same_objective(tmp_path, config):
    whole = tmp_path / "whole"
    train(config("train", *OVERRIDES, f"paths.output_dir={whole}", f"paths.log_dir={whole}"))
    unbroken = history(whole / "checkpoints" / "last.ckpt")
    assert len(unbroken) >= LEAST
    folder = tmp_path / "killed"
    folder.mkdir()
    interrupted(folder, signal.SIGKILL).end()
    checkpoint = only(folder, "*/runs/*/checkpoints/last.ckpt")
    assert len(history(checkpoint)) == 1
    code, shown = train_script(folder, *OVERRIDES, f"ckpt_path={checkpoint}").end()
    assert code == 0, shown
    after = history(only(folder, "*/runs/*/checkpoints/last.ckpt"))  # `only`: it went back to its own folder
    assert [row["objective"] for row in after] == pytest.approx([row["objective"] for row in unbroken], abs=1e-6)
    assert str(checkpoint.parent.parent) in shown
    assert "Checkpoint directory" not in shown
    assert len(json.loads((checkpoint.parent.parent / "run.json").read_text())) == 2
    assert not [p for p in folder.rglob("*") if p.suffix == ".tmp"]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_interrupted_run_says_how_to_go_on(tmp_path, signum, code):
    ended, shown = interrupted(tmp_path, signum).end()
    assert ended == code, shown
    assert "To go on:" in shown
    assert "last.ckpt" in shown


def test_run_interrupted_before_training_keeps_the_candidates_of_finished_images(tmp_path, config, monkeypatch, caplog):
    describe, images = HOG.describe, []

    def stopping(self, image, boxes):
        images.append(image)
        if len(images) == 5:
            raise KeyboardInterrupt
        return describe(self, image, boxes)

    words = ["experiment=minimal", "callbacks=checkpoint", "extras.progress=false", f"paths.output_dir={tmp_path}"]
    cfg = config("train", *words, f"paths.log_dir={tmp_path}")
    with monkeypatch.context() as patched:
        patched.setattr(HOG, "describe", stopping)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            train(cfg)
    assert f"the candidates of finished images are kept in {tmp_path}/cache, and the same command goes on from there" in caplog.text
    left = []
    monkeypatch.setattr(HOG, "describe", lambda self, image, boxes: left.append(image) or describe(self, image, boxes))
    train(cfg)
    assert len(left) == 60 - 4


def test_runs_killed_at_random_moments_resume_to_the_same_objective():
    """Two of the moments of `python tests/kills.py 20`, in a process of its own, since it forks."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve().parents[1] / "kills.py"), "2"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 ended in the same objective" in done.stdout
