"""EM and M3E under Lightning: a run, its checkpoint resumed, measured and used."""

import json
import math

import pytest
import torch

from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.train import train
from lvmdc.distributions import MarginalPrediction, MinEntropyPrediction
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.vision.datasets import cluttered_digits

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*stopped at max_iter")]

OVERRIDES = ["experiment=minimal", "loss=label", "method.C=10", "logger=csv"]


def history(checkpoint) -> list[dict[str, float]]:
    return torch.load(checkpoint, weights_only=True)["lvmdc"]["learned"]["history"]


@pytest.mark.parametrize(
    ("method", "kind"),
    [(["method=em", "method.tol=1e-9"], MarginalPrediction), (["method=m3e", "method.alpha=inf", "method.tol=0.02"], MinEntropyPrediction)],
)
def test_a_run_is_resumed_measured_and_used_from_its_checkpoint(method, kind, config, small, tmp_path):
    def run(name: str, *more: str) -> dict[str, float]:
        folder = tmp_path / name
        return train(config("train", *small, *OVERRIDES, *method, *more, f"paths.output_dir={folder}", f"paths.log_dir={folder}"))

    run("whole", "method.max_iter=4")
    run("broken", "method.max_iter=2")
    begun, whole = (tmp_path / name / "checkpoints" / "last.ckpt" for name in ("broken", "whole"))
    measures = run("resumed", "method.max_iter=4", f"ckpt_path={begun}")
    after, unbroken = history(tmp_path / "resumed" / "checkpoints" / "last.ckpt"), history(whole)
    assert len(history(begun)) == min(2, len(unbroken))
    assert kind is MinEntropyPrediction or len(unbroken) == 4  # a tolerance that EM does not reach in four iterations
    assert [row["objective"] for row in after] == [row["objective"] for row in unbroken]

    checkpoint = read_checkpoint(whole)
    model, images = checkpoint.model(), cluttered_digits(seed=5, per_class=1)
    if kind is MinEntropyPrediction:
        assert checkpoint.config["method"]["alpha"] == math.inf
    found = evaluate_checkpoint(config("eval", f"ckpt_path={whole}", f"paths.output_dir={tmp_path}/eval"))
    assert found["error"] == pytest.approx(measures["test/error"])
    (tmp_path / "photos").mkdir()
    for i in range(2):
        images.image(i).save(tmp_path / "photos" / f"{i}.png")
    places = [f"ckpt_path={whole}", f"input={tmp_path}/photos", f"output={tmp_path}/out", "paths.output_dir=unused"]
    listed = json.loads(predict_images(config("predict", *places)).read_text())["images"]
    assert len(listed) == 2

    data = checkpoint.data()
    data.setup("test")
    prediction = model.prediction(data.test.candidates)
    assert isinstance(prediction, kind)
    best = prediction.top_k(data.test.candidates, 1)
    y, h = model.learner.predict(data.test.candidates)
    assert torch.equal(best[0][:, 0], y)
    assert torch.equal(best[1][:, 0], h)
    assert found["error"] == pytest.approx(float((y != data.test.y).double().mean()))
