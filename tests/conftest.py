"""Shared fixtures and markers. That this file stands here also puts `references`, `devkits` and `processes` on the path of every test."""

from pathlib import Path

import pytest
import torch
from references import random_problem
from runs import config, finished, script, small  # noqa: F401  fixtures

FOLDER = Path(__file__).parent
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


def pytest_collection_modifyitems(items):
    for item in items:
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
