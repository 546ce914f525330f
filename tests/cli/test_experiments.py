"""Every shipped experiment starts, and every method and loss runs under it."""

import warnings
from pathlib import Path

import pytest
import torch

from lvmdc.cli.train import train
from lvmdc.lightning.checkpoint import read_checkpoint

pytestmark = pytest.mark.slow

FOUND = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "configs" / "experiment").glob("*.yaml"))
# Without images: see test_applications.py; which learns its features: test_end_to_end_runs.py; with several objects: test_detector.py,
# test_photos.py.
ELSEWHERE = (
    "digit_recognition",
    "motif_finding",
    "object_detection_cnn",
    "object_detection_cnn_mammals",
    "photos",
    "wsod_digits",
    "wsod_voc",
)
EXPERIMENTS = [name for name in FOUND if name not in ELSEWHERE]
EMBEDDED = {"object_detection_best": ["data=cluttered_digits", "proposals=grid"]}  # what replaces photographs that are not ours to give


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_experiment_runs_one_quick_iteration_and_warns_unless_that_was_enough(experiment, config, small, tmp_path):
    overrides = [*EMBEDDED.get(experiment, []), *small, "method.max_iter=1", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    cfg = config("train", f"experiment={experiment}", *overrides)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        measures = train(cfg)
    assert 0 <= measures["test/loss"] <= 1
    for name in ("report.html", "run.json", "checkpoints/last.ckpt", "images/all.png"):
        assert (tmp_path / name).stat().st_size > 0
    learned = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)["lvmdc"]["learned"]
    assert len(learned["history"]) == 1
    assert any("stopped at max_iter=1" in str(one.message) for one in caught) == (not learned["converged"])
    assert read_checkpoint(tmp_path / "checkpoints" / "last.ckpt").model().classes


METHODS = ["lsvm", "ilsvm", "supervised", "disc", "disc_soft", "em", "m3e"]
LOSSES = ["label", "zero_one"]


@pytest.mark.parametrize(("method", "loss"), [*((method, LOSSES[i % 2]) for i, method in enumerate(METHODS)), ("disc", "label")])
def test_every_method_and_every_loss_run(method, loss, config, small, tmp_path):
    overrides = ["experiment=minimal", f"method={method}", f"loss={loss}", "method.tol=0.1", "method.max_iter=30", "extras.report=false"]
    cfg = config("train", *small, *overrides, "logger=csv", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}")
    assert "test/error" in train(cfg)


@pytest.mark.parametrize(("module", "method"), [("alternating", "disc"), ("dual", "disc"), ("sparse", "lsvm"), ("soft", "disc_soft")])
def test_mini_batches_run_by_their_config(module, method, config, small, tmp_path):
    overrides = [
        "experiment=minimal",
        f"module={module}",
        f"method={method}",
        "trainer.max_epochs=2",
        f"paths.output_dir={tmp_path}",
        f"paths.log_dir={tmp_path}",
    ]
    measures = train(config("train", *small, *overrides))
    assert 0 <= measures["test/error"] <= 1


def test_two_runs_never_share_a_folder():
    from lvmdc.cli.config import run_dir

    assert len({run_dir("logs", "task", None) for _ in range(200)}) == 200
