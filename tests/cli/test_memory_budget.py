"""Memory is a setting of the command line too: with little of it, a training gives the same numbers."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from lvmdc.cli.train import train
from lvmdc.losses import OverlapLoss, pairwise
from lvmdc.solvers.n_slack.planes import PlaneVectors
from lvmdc.storage import arrays as storage
from lvmdc.storage import mapped

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


def assert_same(one: tuple[dict[str, float], dict], two: tuple[dict[str, float], dict], within: float = 1e-5) -> None:
    assert one[0] == pytest.approx(two[0], abs=within)
    assert torch.allclose(one[1]["coef"], two[1]["coef"], rtol=0, atol=within)
    assert one[1]["history"][-1]["objective"] == pytest.approx(two[1]["history"][-1]["objective"], abs=within)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_budget(method, config):
    assert instantiate(config("train", f"method={method}", "method.memory_budget=1000").method).memory_budget == 1000


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["disc", "lsvm"])
def test_features_on_disk_stay_there_and_no_more_is_copied_than_the_budget(method, run, tmp_path, monkeypatch):
    tables, reserve = [], PlaneVectors._reserve

    def watched(vectors, dtype):
        reserve(vectors, dtype)
        tables.append((mapped.is_mapped(vectors.hinge.candidates.features), vectors.data.nbytes))

    monkeypatch.setattr(PlaneVectors, "_reserve", watched)
    free = run("free", f"method={method}", f"paths.cache_dir={tmp_path}/cache")
    assert not tables
    monkeypatch.setattr(storage, "MAP_ABOVE", 1)
    tight = run("tight", f"method={method}", "method.memory_budget=400000", f"paths.cache_dir={tmp_path}/cache")
    assert_same(tight, free, within=1e-4)  # planes come in another order
    assert tables
    assert all(is_mapped and size <= 400_000 for is_mapped, size in tables)
