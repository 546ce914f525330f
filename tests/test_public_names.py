"""Every public name of the core shows in its docstring how it is used."""

import importlib
import inspect

import pytest

PACKAGES = (
    "lvmdc",
    "lvmdc.losses",
    "lvmdc.distributions",
    "lvmdc.chains",
    "lvmdc.solvers",
    "lvmdc.sequences",
    "lvmdc.vision.datasets",
    "lvmdc.vision.features",
    "lvmdc.vision.proposals",
    "lvmdc.vision.metrics",
    "lvmdc.vision.detection",
    "lvmdc.reproduction",
)
FROM_ELSEWHERE = {"ConvergenceWarning"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_has_a_runnable_example(package):
    module = importlib.import_module(package)
    names = [name for name in module.__all__ if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))]
    lacking = [name for name in names if name not in FROM_ELSEWHERE and ">>>" not in (inspect.getdoc(getattr(module, name)) or "")]
    assert names
    assert not lacking
