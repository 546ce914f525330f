"""A disk that is full, or cannot be written to: a sentence that says so, and the last checkpoint still loads.

What needs a small disk of its own mounts one, which only an administrator may do; the rest is simulated and runs everywhere.
"""

import errno
import os
import subprocess
from pathlib import Path

import pytest
import torch

from lvmdc import Candidates
from lvmdc.cli import train as run
from lvmdc.lightning import callbacks
from lvmdc.lightning.checkpoint import AtomicCheckpointIO, read_checkpoint, read_content, write_content
from lvmdc.storage import arrays as storage
from lvmdc.storage.files import write_atomically
from lvmdc.testing import random_candidates

ERRORS = {errno.ENOSPC: "the disk is full: free some space", errno.EDQUOT: "the disk is full", errno.EROFS: "Read-only file system"}


def failing(monkeypatch, number: int, after: int = 0) -> None:
    """Let every file that is replaced fail with this error, once `after` of them were written."""
    seen, replace = [], os.replace

    def fail(one, two):
        seen.append(two)
        if len(seen) > after:
            raise OSError(number, os.strerror(number))
        replace(one, two)

    monkeypatch.setattr(storage.os, "replace", fail)


@pytest.mark.parametrize("number", ERRORS)
def test_a_file_that_cannot_be_written_is_named_and_the_one_before_is_kept(tmp_path, monkeypatch, number):
    first = random_candidates([1, 2])
    first.save(tmp_path / "a.npz")
    write_content(tmp_path / "a.ckpt", {"w": torch.ones(2)})
    write_atomically(tmp_path / "a.html", b"whole")
    failing(monkeypatch, number)
    writers = {
        "a.npz": random_candidates([3]).save,
        "a.ckpt": lambda path: write_content(path, {}),
        "a.html": lambda p: write_atomically(p, b""),
    }
    for name, write in writers.items():
        said = rf"{name} could not be written, since {ERRORS[number]}.*; the file that was there is unchanged"
        with pytest.raises(OSError, match=said) as caught:
            write(tmp_path / name)
        assert caught.value.errno == number
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(writers)
    assert torch.equal(Candidates.load(tmp_path / "a.npz").features, first.features)
    assert read_content(tmp_path / "a.ckpt")["w"].tolist() == [1, 1]


# β falls by a third an iteration from 0.5 to 0.1, and learning does not end before: there are several checkpoints on every machine.
QUICK = [
    "experiment=minimal",
    "method=disc",
    "method.init=uniform",
    "method.C=5",
    "method.tol=0.00001",
    "method.anneal=0.5",
    "method.beta=0.1",
]
QUICK += ["logger=csv", "callbacks=checkpoint", "extras.progress=false"]


@pytest.mark.slow
def test_training_ends_with_a_sentence_and_a_checkpoint_that_loads(script, tmp_path, monkeypatch, capsys):
    seen, write = [], AtomicCheckpointIO.save_checkpoint

    def save(self, checkpoint, path, storage_options=None):
        seen.append(path)
        if len(seen) == 4:  # best and last of the first iteration were written
            failing(monkeypatch, errno.ENOSPC)
        write(self, checkpoint, path, storage_options)

    said = []
    monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", save)
    monkeypatch.setattr(callbacks.ResumeHint, "say", lambda self, trainer, what: said.append(what))
    code, words = script("train", *QUICK, "data.images.per_class=6")
    assert code == 1
    assert ".ckpt could not be written, since the disk is full: free some space and try again" in words
    assert said == ["a file could not be written"]
    (last,) = tmp_path.glob("logs/*/runs/*/checkpoints/last.ckpt")
    assert read_checkpoint(last).model().history()


# ---- a real small disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """`disk.fill()`, `disk.lock()`: a disk of three megabytes at `disk.path`."""

    class Disk:
        path = tmp_path / "disk"

        def mount(self, *words: str) -> bool:
            return subprocess.run(["mount", *words, str(self.path)], capture_output=True, check=False).returncode == 0

        def fill(self) -> None:
            with Path(self.path, "filler").open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

        def lock(self) -> None:  # for files that are opened from now on
            assert self.mount("--bind", str(self.path))
            assert self.mount("-o", "remount,bind,ro")

    found = Disk()
    found.path.mkdir()
    if os.name != "posix" or not found.mount("-t", "tmpfs", "-o", "size=3m", "tmpfs"):
        pytest.skip("mounting a small disk needs an administrator")
    yield found
    while found.path.is_mount():
        subprocess.run(["umount", "-l", str(found.path)], check=True)


HARM = {"fill": "the disk is full: free some space and try again", "lock": "Read-only file system"}


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("moment", ["training", "reporting"])
def test_a_real_disk_that_fails_ends_a_run_with_a_sentence(harm, moment, script, disk, tmp_path, monkeypatch):
    saves, save, finish = [], AtomicCheckpointIO.save_checkpoint, run.finish

    def training(self, checkpoint, path, storage_options=None):
        saves.append(path)
        if len(saves) == 4:
            getattr(disk, harm)()
        save(self, checkpoint, path, storage_options)

    def reporting(*arguments):
        getattr(disk, harm)()
        finish(*arguments)

    if moment == "training":
        monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", training)
    else:
        monkeypatch.setattr(run, "finish", reporting)
    places = [f"paths.log_dir={disk.path}", f"paths.cache_dir={tmp_path}/cache", f"data.cache_dir={tmp_path}/cache"]
    code, words = script("train", *QUICK, "data.images.per_class=6", *places)
    assert code == 1
    assert words.startswith("error: ")
    assert HARM[harm] in words
    assert str(disk.path) in words
    (last,) = disk.path.glob("*/runs/*/checkpoints/last.ckpt")
    assert read_checkpoint(last).model().history()
    assert not list(disk.path.rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_a_real_disk_that_fails_ends_caching_with_a_sentence(harm, script, disk, tmp_path):
    getattr(disk, harm)()
    places = [f"paths.log_dir={tmp_path}", f"data.cache_dir={disk.path}/cache"]
    code, words = script("train", *QUICK, "data.images.per_class=6", *places)
    assert code == 1
    assert HARM[harm] in words
    assert str(disk.path) in words


@pytest.mark.slow
def test_a_detector_on_a_real_full_disk_keeps_its_last_class(script, disk, tmp_path, monkeypatch):
    saves, save = [], AtomicCheckpointIO.save_checkpoint

    def watched(self, checkpoint, path, storage_options=None):
        saves.append(path)
        if len(saves) == 3:  # best and last of the first class were written
            disk.fill()
        save(self, checkpoint, path, storage_options)

    monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", watched)
    parts = ["experiment=wsod_digits", "data.images.n_images=30", "data.images.digits=[0,2,3]", "method.n_init=1", "method.tol=0.5"]
    places = [
        f"paths.log_dir={disk.path}",
        f"data.cache_dir={tmp_path}/cache",
        "extras.progress=false",
        "logger=csv",
        "callbacks=checkpoint",
    ]
    code, words = script("train", *parts, *places, "module.supervised=false")
    assert code == 1
    assert ".ckpt could not be written, since the disk is full" in words
    (last,) = disk.path.glob("*/runs/*/checkpoints/last.ckpt")
    assert list(read_checkpoint(last).learned["history"]) == ["0"]
