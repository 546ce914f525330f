"""Shared fixtures and markers. That this file stands here also puts `references`, `devkits` and `processes` on the path of every test."""

from pathlib import Path

import pytest
import torch
from devices import TestsOn, train_on
from references import random_problem
from runs import config, finished, script, small  # noqa: F401  fixtures

FOLDER = Path(__file__).parent
collect_ignore = ["standin.py"]  # which registers a device wherever it is imported
# Folders and files whose tests solve or learn: their results depend on the order of a sum, and so on the CPU.
NUMERICS = (
    "chains/test_learners.py",
    "cli/test_experiments.py",
    "cli/test_memory_budget.py",
    "learners/",
    "lightning/test_dual_steps.py",
    "lightning/test_resume.py",
    "lightning/test_soft_methods.py",
    "lightning/test_stochastic_ranks.py",
    "solvers/",
    "test_distributed.py",
)


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where tests make their tensors: cpu, cuda or standin, a simulated accelerator")


def pytest_configure(config):  # noqa: F811  pytest gives its own
    name = config.getoption("--device")
    if name == "standin":
        import standin  # noqa: F401  registers the device
    if name != "cpu":
        TestsOn(torch.device(name)).__enter__()  # for good, since test modules make tensors when they are imported
        train_on(torch.device(name))


@pytest.fixture(scope="session")
def device(request):
    """The device on which this run tests, `--device`."""
    return torch.device(request.config.getoption("--device"))


def pytest_collection_modifyitems(items):
    for item in items:
        name, needed = item.config.getoption("--device"), item.get_closest_marker("needs")
        if needed is not None and name != "cpu":
            item.add_marker(pytest.mark.skip(reason=f"{name} has no {needed.args[0]}"))
        if item.path.is_relative_to(FOLDER) and item.path.relative_to(FOLDER).as_posix().startswith(NUMERICS):
            item.add_marker("numerics")
        if "ranks" in getattr(item, "fixturenames", ()):  # what two ranks found, which the first test that asks for it waits for
            item.add_marker("slow")
            item.add_marker("ranks")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # the problems are small, and the tests run side by side


@pytest.fixture
def problem():
    """Four samples with 3, 1, 4 and 2 candidates, three classes."""
    return random_problem()
