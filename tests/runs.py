"""Runs that several tests look at."""

import logging
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from lvmdc.cli import config as resolvers
from lvmdc.cli.train import train

ROOT = Path(__file__).resolve().parents[1]
QUIET = ["extras.progress=false", "callbacks=checkpoint", "extras.threads=1"]


def composed(name: str, *overrides: str) -> DictConfig:
    resolvers.register()
    with initialize_config_dir(str(resolvers.CONFIGS), version_base="1.3"):
        # Which Hydra says where it runs.
        folder = [] if any(word.startswith("paths.output_dir=") for word in overrides) else ["paths.output_dir=unused"]
        return compose(name, overrides=[*folder, *overrides])


@pytest.fixture(scope="session")
def config() -> Callable[..., DictConfig]:
    """`config(name, *overrides)`: a configuration as the command line would compose it."""
    return composed


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Overrides that make a run quick and quiet."""
    return [*QUIET, "data.images.per_class=8"]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a few iterations, with images in TensorBoard."""
    folder = tmp_path_factory.mktemp("run with spaces é")
    overrides = [
        "experiment=object_detection",
        "data.images.per_class=8",
        "data.val_fraction=0.2",
        "extras.progress=false",
        "method.tol=0.1",
    ]
    cfg = composed(
        "train",
        *overrides,
        "~callbacks.progress",
        f"paths.output_dir='{folder}'",
        f"paths.log_dir='{folder}'",
    )
    train(cfg)
    return folder


@pytest.fixture
def script(tmp_path, monkeypatch, capsys):
    """`script(name, *words)`: its code and the last line that it said; in this process, since starting one takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(logging, "raiseExceptions", logging.raiseExceptions)  # which the scripts change
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level

    def run(name: str, *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        code: object = 0
        try:
            runpy.run_path(str(ROOT / "scripts" / f"{name}.py"), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        finally:
            root.handlers[:], root.level = before, level
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return (1, code) if isinstance(code, str) else (int(code or 0), shown.err.strip())  # which is what Python makes of it

    return run
