"""Names that the examples in docstrings may use without importing them."""

import pytest
import torch

from lvmdc import Candidates


@pytest.fixture(autouse=True)
def _names_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(torch=torch, Candidates=Candidates)
