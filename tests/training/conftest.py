"""Runs that several tests look at."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from lvmdc.training import resolvers
from lvmdc.training.run import train

ROOT = Path(__file__).resolve().parents[2]
QUIET = ["extras.progress=false", "callbacks=checkpoint", "extras.threads=1"]


def composed(name: str, *overrides: str) -> DictConfig:
    resolvers.register()
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        return compose(name, overrides=list(overrides))


@pytest.fixture(scope="session")
def config() -> Callable[..., DictConfig]:
    """`config(name, *overrides)`: a configuration as the command line would compose it."""
    return composed


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Overrides that make a run quick and quiet."""
    return [*QUIET, "data.pictures.per_class=8"]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a few iterations, with pictures in TensorBoard."""
    folder = tmp_path_factory.mktemp("run with spaces é")
    overrides = [
        "experiment=object_detection",
        "data.pictures.per_class=8",
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
