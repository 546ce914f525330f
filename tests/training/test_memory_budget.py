"""Memory is a setting of the command line too: with little of it, a training gives the same numbers."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from lvmdc.losses import OverlapLoss, pairwise
from lvmdc.training.run import train

OVERRIDES = [
    "experiment=minimal",
    "loss=overlap",
    "method.C=5",
    "method.tol=1e-6",
    "method.max_iter=3",
    "logger=csv",
    "extras.report=false",
]
METHODS = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "configs" / "method").glob("*.yaml"))
pytestmark = pytest.mark.filterwarnings("ignore:.*stopped at max_iter")


@pytest.fixture
def run(config, small, tmp_path):
    def trained(name: str, *more: str) -> tuple[dict[str, float], dict]:
        folder = tmp_path / name
        measures = train(config("train", *small, *OVERRIDES, *more, f"paths.output_dir={folder}", f"paths.log_dir={folder}"))
        return measures, torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["lvmdc"]["learned"]

    return trained


def assert_same(one: tuple[dict[str, float], dict], two: tuple[dict[str, float], dict]) -> None:
    assert one[0] == pytest.approx(two[0], abs=1e-5)
    assert torch.allclose(one[1]["coef"], two[1]["coef"], rtol=0, atol=1e-5)
    objectives = [[row["objective"] for row in learned["history"]] for _, learned in (one, two)]
    assert objectives[0] == pytest.approx(objectives[1], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_budget(method, config):
    assert instantiate(config("train", f"method={method}", "method.memory_budget=1000").method).memory_budget == 1000


@pytest.mark.parametrize("method", ["disc", "ilsvm", "lsvm"])
def test_a_small_budget_for_losses_gives_the_numbers_of_none(method, run, monkeypatch):
    kept = []

    class Watched(pairwise.RaggedMatrices):
        def __init__(self, *parts):
            kept.append(parts)
            super().__init__(*parts)

    monkeypatch.setattr(OverlapLoss, "within_class", lambda *a: None)  # as a loss without a closed form
    monkeypatch.setattr(pairwise, "RaggedMatrices", Watched)
    free = run("free", f"method={method}")
    assert kept
    kept.clear()
    assert_same(run("tight", f"method={method}", "method.memory_budget=30000"), free)
    assert not kept
