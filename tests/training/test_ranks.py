"""Training over two ranks, exact and by mini-batches: the numbers of one process, one set of files, and a way on when a rank is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from lvmdc.training.run import train

ROOT = Path(__file__).resolve().parents[2]
TRAIN = str(ROOT / "scripts" / "train.py")
PROBLEM = [
    "experiment=object_detection", "data.pictures.per_class=12", "loss=zero_one", "method.C=5", "method.J=0.01", "method.tol=0.0001",
    "method.solver=one_slack", "method.cccp=strict", "method.init=random", "extras.progress=false", "extras.threads=1",
    "callbacks=checkpoint", "logger=csv",
]  # fmt: skip
BATCHES = [
    "data=direct", "+data.samples._target_=training.noise.Noise", "solver=stochastic", "data.batch_size=4", "loss=overlap", "method.C=5",
    "method.J=0.01", "method.tol=1e-9", "trainer.max_epochs=60", "extras.progress=false", "extras.threads=1", "extras.report=false",
    "callbacks=checkpoint", "logger=csv",
]  # fmt: skip
RANKS = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.strategy.timeout=60"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", TRAIN]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
PATIENCE = 300  # seconds, on a busy machine


def started(folder: Path, *words: str, problem: list[str] = PROBLEM) -> subprocess.Popen:
    words = (sys.executable, *words, *problem, f"paths.log_dir={folder}")
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)


def run(folder: Path, *words: str, problem: list[str] = PROBLEM) -> str:
    job = started(folder, *words, problem=problem)
    shown, _ = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, shown
    return shown


def broken(folder: Path, signum: int, start: list[str], *words: str, problem: list[str] = PROBLEM) -> tuple[str, int]:
    """A job of two ranks, the second of which gets a signal after the first checkpoint: what it showed, and which process that was."""
    job = started(folder, *start, *RANKS, *words, problem=problem)
    wait_for(lambda: rank_of(job, 1))
    hit = rank_of(job, 1)
    wait_for(lambda: list(folder.glob("*/runs/*/checkpoints/last.ckpt")) or job.poll() is not None)
    os.kill(hit, signum)
    shown, _ = job.communicate(timeout=PATIENCE)
    assert job.returncode != 0, shown
    return shown, hit


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rank_of(job: subprocess.Popen, rank: int) -> int:
    """The process of a rank that Lightning or torchrun started from the job; 0 where there is none yet."""
    for process in psutil.Process(job.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may have ended meanwhile
            if TRAIN in process.cmdline() and process.environ().get("LOCAL_RANK") == str(rank):
                return process.pid
    return 0


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def learned(folder: Path) -> dict:
    return torch.load(only(folder, "*/runs/*/checkpoints/last.ckpt"), weights_only=True)["lvmdc"]["learned"]


def assert_same(folder: Path, alone: Path) -> None:
    """w, θ, every row of the history and the measures of two runs."""
    two, one = learned(folder), learned(alone)
    assert [row["objective"] for row in two["history"]] == pytest.approx([row["objective"] for row in one["history"]], abs=1e-6)
    assert torch.allclose(two["coef"], one["coef"], rtol=0, atol=1e-6)
    assert torch.allclose(two["theta"]["theta"], one["theta"]["theta"], rtol=0, atol=1e-6)
    results = [json.loads((only(f, "*/runs/*") / "results.json").read_text()) for f in (folder, alone)]
    assert results[0] == pytest.approx(results[1], abs=1e-6)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    run(folder, TRAIN)
    assert len(learned(folder)["history"]) >= 3, "the problem is too easy to be interrupted"
    return folder


def test_two_ranks_of_torchrun_learn_what_one_process_learns_and_write_it_once(tmp_path, alone):
    shown = run(tmp_path, *TORCHRUN, *RANKS)
    assert_same(tmp_path, alone)
    folder = only(tmp_path, "*/runs/*")
    assert len(json.loads((folder / "run.json").read_text())) == 1
    assert shown.count("run folder") == (folder / "run.log").read_text().count("run folder") == 1
    rows = [(f / "csv" / "metrics.csv").read_text().splitlines() for f in (folder, only(alone, "*/runs/*"))]
    assert len(rows[0]) == len(rows[1])
    assert (folder / "report.html").exists()


def test_a_killed_rank_ends_the_job_with_the_way_on_and_one_process_goes_on(tmp_path, alone):
    shown, _ = broken(tmp_path, signal.SIGKILL, [TRAIN])
    checkpoint = only(tmp_path, "*/runs/*/checkpoints/last.ckpt")
    assert "To go on:" in shown
    assert f"ckpt_path='{checkpoint}'" in shown
    assert 1 <= len(learned(tmp_path)["history"]) < len(learned(alone)["history"])
    run(tmp_path, TRAIN, f"ckpt_path={checkpoint}")
    assert_same(tmp_path, alone)


def test_a_rank_that_does_not_answer_ends_the_job_in_bounded_time_and_two_go_on(tmp_path, alone):
    shown, silent = broken(tmp_path, signal.SIGSTOP, [TRAIN], "trainer.strategy.timeout=25")
    checkpoint = only(tmp_path, "*/runs/*/checkpoints/last.ckpt")
    assert "did not answer within 25 s" in shown
    assert f"ckpt_path='{checkpoint}'" in shown
    wait_for(lambda: not psutil.pid_exists(silent))  # it does not stay behind
    run(tmp_path, TRAIN, *RANKS, f"ckpt_path={checkpoint}")
    assert_same(tmp_path, alone)


@pytest.fixture(scope="module")
def alone_by_batches(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone by batches")
    run(folder, TRAIN, problem=BATCHES)
    return folder


def test_mini_batches_end_with_a_killed_rank_of_torchrun_and_two_of_lightning_go_on_as_one_process_would(tmp_path, alone_by_batches):
    shown, _ = broken(tmp_path, signal.SIGKILL, TORCHRUN, problem=BATCHES)
    checkpoint = only(tmp_path, "*/runs/*/checkpoints/last.ckpt")
    assert "To go on:" in shown
    assert f"ckpt_path='{checkpoint}'" in shown
    assert 1 <= len(learned(tmp_path)["history"]) < len(learned(alone_by_batches)["history"])
    run(tmp_path, TRAIN, *RANKS, f"ckpt_path={checkpoint}", problem=BATCHES)
    assert_same(tmp_path, alone_by_batches)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "needs solver='one_slack' and cccp='strict'.* but they are 'n_slack' and 'strict'"),
        (["method=em"], "EM learns in one process"),
        (["method.solver=one_slack", "method.theta_solver=ssd"], "theta_solver='lbfgs'"),
        (["trainer.strategy.timeout=0"], "trainer.strategy.timeout must be positive"),
    ],
)
def test_what_cannot_be_learned_over_ranks_is_refused_before_they_start(config, small, tmp_path, words, told):
    cfg = config(
        "train", *small, "trainer=ddp", "trainer.accelerator=cpu", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", *words
    )
    with pytest.raises(Exception, match=told):
        train(cfg)
    assert not list(tmp_path.rglob("*.ckpt"))
