"""Shared fixtures. That this file stands here also puts `references` and `devkits` on the path of every test."""

import pytest
import torch
from references import random_problem


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # the problems are small, and the tests run side by side


@pytest.fixture
def problem():
    """Four samples with 3, 1, 4 and 2 candidates, three classes."""
    return random_problem()
