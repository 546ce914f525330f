"""Training over two ranks, exact and by mini-batches: the numbers of one process, one set of files, and a way on when a rank is lost."""

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from noise import hold_until
from processes import ROOT, Script, train_script

from lvmdc.cli.train import train

TRAIN = str(ROOT / "scripts" / "train.py")
SAMPLES = [
    "data=direct", "+data.samples._target_=noise.Noise", "+data.samples.signal=6.0", "extras.progress=false",
    "extras.threads=1", "callbacks=checkpoint", "logger=csv", "method.C=5",
]  # fmt: skip
TOL = 1e-6
# β falls by a third an iteration from 0.5 to 0.1, and learning does not end before: every machine makes five iterations or more.
LEAST = 5
EXACT = [
    *SAMPLES, "loss=zero_one", "method.J=0.1", f"method.tol={TOL}", "method.solver=one_slack",
    "method.cccp=inexact", "method.init=uniform", "method.anneal=0.5", "method.beta=0.1",
]  # fmt: skip
EPOCHS = 12
BATCHES = [
    *SAMPLES, "module=dual", "data.batch_size=4", "loss=overlap", "method.J=0.01", "method.tol=1e-9", f"trainer.max_epochs={EPOCHS}",
    "extras.report=false",
]  # fmt: skip
RANKS = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.strategy.timeout=60"]
PATIENCE = 300  # seconds, on a busy machine


def lightning(folder: Path, *words: str) -> Script:
    """Two ranks, the second of which is started by the first."""
    return train_script(folder, *words)


def torchrun(folder: Path, *words: str) -> Script:
    """Two ranks, both of which are started by torchrun."""
    start = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", TRAIN]
    return Script(folder, *start, *words, f"paths.log_dir={folder}", module=True)


def finished(script: Script) -> str:
    code, shown = script.end(PATIENCE)
    assert code == 0, shown
    return shown


def broken(folder: Path, signum: int, launch: Callable[..., Script], *words: str) -> tuple[str, int]:
    """A job of two ranks, the second of which gets a signal after the first checkpoint: what it showed, and which process that was.

    Both ranks wait in their second epoch until the signal was sent.
    """
    job = launch(folder, *words, *hold_until(folder / "signal sent"))
    wait_for(lambda: rank_of(job, 1) or not job.running)
    hit = rank_of(job, 1)
    wait_for(lambda: list(folder.glob("*/runs/*/checkpoints/last.ckpt")) or not job.running)
    os.kill(hit, signum)
    (folder / "signal sent").touch()
    code, shown = job.end(PATIENCE)
    assert code != 0, shown
    assert len(learned(folder)["history"]) == 1
    assert f"ckpt_path='{only(folder, LAST)}'" in shown
    return shown, hit


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rank_of(job: Script, rank: int) -> int:
    """The process of a rank that Lightning or torchrun started from the job; 0 where there is none yet."""
    with suppress(psutil.Error):  # it may have ended meanwhile
        for process in psutil.Process(job.pid).children(recursive=True):
            with suppress(psutil.Error):
                if TRAIN in process.cmdline() and process.environ().get("LOCAL_RANK") == str(rank):
                    return process.pid
    return 0


LAST = "*/runs/*/checkpoints/last.ckpt"


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def learned(folder: Path) -> dict:
    return torch.load(only(folder, LAST), weights_only=True)["lvmdc"]["learned"]


def assert_same(folder: Path, alone: Path, gap: float) -> None:
    """Two trainings end in the same objective and the same measures, up to the gap, and in w and θ that are as near as that asks for."""
    two, one = learned(folder), learned(alone)
    assert two["history"][-1]["objective"] == pytest.approx(one["history"][-1]["objective"], abs=2 * gap)
    assert torch.allclose(two["coef"], one["coef"], rtol=0, atol=2 * (2 * gap) ** 0.5)
    assert torch.allclose(two["theta"]["theta"], one["theta"]["theta"], rtol=0, atol=1e-3)
    results = [json.loads((only(f, "*/runs/*") / "results.json").read_text()) for f in (folder, alone)]
    assert results[0] == pytest.approx(results[1], abs=2 * gap + 1e-6)


def in_this_process(folder: Path, config, words: list[str], *more: str) -> Path:
    run = only(folder, "*/runs/*") if more else folder / "train" / "runs" / "alone"
    train(config("train", *words, f"paths.log_dir={folder}", f"paths.output_dir={run}", *more))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory, config):
    folder = in_this_process(tmp_path_factory.mktemp("alone"), config, EXACT)
    assert len(learned(folder)["history"]) >= LEAST
    return folder


@pytest.mark.slow
@pytest.mark.ranks
def test_a_rank_that_does_not_answer_ends_the_job_in_bounded_time_and_two_of_torchrun_go_on_and_write_once(tmp_path, alone):
    shown, silent = broken(tmp_path, signal.SIGSTOP, lightning, *EXACT, *RANKS, "trainer.strategy.timeout=25")
    assert "did not answer within 25 s" in shown
    wait_for(lambda: not psutil.pid_exists(silent))  # it does not stay behind
    shown = finished(torchrun(tmp_path, *EXACT, *RANKS, f"ckpt_path={only(tmp_path, LAST)}"))
    assert_same(tmp_path, alone, 5 * TOL)
    folder = only(tmp_path, "*/runs/*")
    assert len(json.loads((folder / "run.json").read_text())) == 2  # the broken run and this one
    assert shown.count("run folder") == (folder / "run.log").read_text().count("run folder") == 1
    with (folder / "csv" / "metrics.csv").open() as file:
        steps = [row["step"] for row in csv.DictReader(file) if row["train/objective"]]
    assert len(steps) == len(set(steps)) == len(learned(tmp_path)["history"]) - 1  # those after the first checkpoint
    assert (folder / "report.html").exists()


@pytest.mark.slow
@pytest.mark.ranks
def test_a_killed_rank_ends_the_job_with_the_way_on_and_one_process_goes_on(tmp_path, alone, config):
    shown, _ = broken(tmp_path, signal.SIGKILL, lightning, *EXACT, *RANKS)
    assert "To go on:" in shown
    in_this_process(tmp_path, config, EXACT, f"ckpt_path={only(tmp_path, LAST)}")
    assert_same(tmp_path, alone, 5 * TOL)


@pytest.mark.slow
@pytest.mark.ranks
def test_mini_batches_end_with_a_killed_rank_of_torchrun_and_two_of_lightning_go_on_as_one_process_would(tmp_path, config):
    (tmp_path / "alone").mkdir()
    alone = in_this_process(tmp_path / "alone", config, BATCHES)
    assert len(learned(alone)["history"]) == EPOCHS
    folder = tmp_path / "ranks"
    folder.mkdir()
    shown, _ = broken(folder, signal.SIGKILL, torchrun, *BATCHES, *RANKS)
    assert "To go on:" in shown
    finished(lightning(folder, *BATCHES, *RANKS, f"ckpt_path={only(folder, LAST)}"))
    assert_same(folder, alone, 1e-6)  # the same steps in the same order, however far they are from the end


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method.cccp=self_paced"], "over several ranks needs cccp='exact', 'inexact' or 'eager', but it is 'self_paced'"),
        (["method=em"], "EM learns in one process"),
        (["method.theta_solver=ssd"], "theta_solver='lbfgs'"),
        (["trainer.strategy.timeout=0"], "trainer.strategy.timeout must be positive"),
    ],
)
def test_what_cannot_be_learned_over_ranks_is_refused_before_they_start(config, small, tmp_path, words, message):
    cfg = config(
        "train", *small, "trainer=ddp", "trainer.accelerator=cpu", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", *words
    )
    with pytest.raises(Exception, match=message):
        train(cfg)
    assert not list(tmp_path.rglob("*.ckpt"))
