"""A run that learns its features, by its configuration: resumed, measured and used from its checkpoint."""

import json
import re
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.train import train
from lvmdc.vision.datasets import cluttered_digits

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
QUICK = ["experiment=object_detection_cnn", "extras.progress=false", "extras.threads=1", "data.images.per_class=5", "method.tol=0.05"]


def test_a_run_leaves_images_and_a_checkpoint_that_is_resumed_measured_and_used(config, tmp_path):
    folder = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    train(config("train", *QUICK, "~callbacks.progress", "trainer.max_epochs=2", *folder))
    assert list(tmp_path.rglob("events.out.tfevents*"))
    path = tmp_path / "checkpoints" / "last.ckpt"
    measures = train(config("train", *QUICK, "callbacks=checkpoint", "trainer.max_epochs=3", f"ckpt_path={path}", *folder))
    for name in ("report.html", "run.json", "images/all.png"):
        assert (tmp_path / name).stat().st_size > 0
    found = evaluate_checkpoint(config("eval", f"ckpt_path={path}", f"paths.output_dir={tmp_path}/eval"))
    assert found == pytest.approx({name.removeprefix("test/"): value for name, value in measures.items()}, rel=1e-5)
    (tmp_path / "photos").mkdir()
    made = cluttered_digits(seed=5, per_class=1)
    for i in range(2):
        made.image(i).save(tmp_path / "photos" / f"{i}.png")
    places = [f"ckpt_path={path}", f"input={tmp_path}/photos", f"output={tmp_path}/out", "paths.output_dir=unused"]
    listed = json.loads(predict_images(config("predict", *places)).read_text())["images"]
    assert len(listed) == 2


def test_the_networks_of_the_configuration_can_be_made(config):
    cfg = config("train", "experiment=object_detection_cnn", "network=efficientnet_lite0", "data=mammals", "module.network.grid=2")
    assert cfg.module.network.backbone == "efficientnet_lite0"
    assert cfg.module.network.grid == 2
    assert cfg.module.optimizer_backbone.lr < 1e-3
    assert cfg.module.augmentation.flip == 0.5


def test_precision_and_device_are_the_trainers(config):
    cfg = config("train", "experiment=object_detection_cnn", "trainer=gpu", "trainer.precision=bf16-mixed")
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("gpu", "bf16-mixed")
    assert "device" not in cfg.module.network


def test_the_experiment_on_photographs_keeps_what_its_frozen_part_makes_of_them(config, tmp_path):
    """On the embedded images, since the photographs are not ours to give."""
    folder = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", "data=cluttered_digits", "data.images.per_class=3"]
    windows = ["proposals.size=[28,28]", "module.network.longer_side=64", "trainer.max_epochs=1", "method.tol=0.05"]
    cfg = config("train", "experiment=object_detection_cnn_mammals", "extras.progress=false", "extras.threads=1", *windows, *folder)
    assert cfg.module.network.frozen == "blocks.14"
    assert instantiate(cfg.module.augmentation, _convert_="all").only_mirrors
    assert 0 <= train(cfg)["test/loss"] <= 1


def test_no_configuration_but_the_trainers_names_a_device():
    configs = Path(__file__).resolve().parents[2] / "configs"
    names = re.compile(r"^\s*(device|accelerator):(?! null\b)", re.MULTILINE)
    assert [path for path in configs.rglob("*.yaml") if path.parent.name != "trainer" and names.search(path.read_text())] == []


STEPS = ["module.begin=steps", "module.finish=steps", "prediction.hidden=[8]", "conditional.hidden=[6]"]


def test_networks_for_both_distributions_learn_with_the_one_that_describes(config, tmp_path):
    folder = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}", "callbacks=checkpoint", "trainer.max_epochs=2"]
    measures = train(config("train", *QUICK, "prediction=mlp", "conditional=mlp", *STEPS, *folder))
    path = tmp_path / "checkpoints" / "last.ckpt"
    learned = torch.load(path, weights_only=True)["lvmdc"]["learned"]
    assert learned["coef"] is None
    assert {value.shape[0] for name, value in learned["prediction"].items() if name.endswith("weight")} == {8, 6}  # hidden, classes
    assert any(value.shape[0] == 6 for value in learned["theta"].values())
    found = evaluate_checkpoint(config("eval", f"ckpt_path={path}", f"paths.output_dir={tmp_path}/eval"))
    assert found == pytest.approx({name.removeprefix("test/"): value for name, value in measures.items()}, rel=1e-5)


@pytest.mark.parametrize("network", ["prediction=mlp", "conditional=mlp"])
def test_a_network_that_the_exact_solver_would_have_to_solve_is_refused(network, config, tmp_path):
    folder = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    with pytest.raises(ValueError, match="begin and finish must be 'steps' where prediction or conditional is a network"):
        train(config("train", *QUICK, network, *folder))


def test_the_small_network_learns_to_find_digits_that_it_did_not_find_at_first(config, tmp_path):
    """Without any ground-truth box: a network whose cells see much beyond a window learns the classes and not the places."""
    images = [*(word for word in QUICK if "per_class" not in word), "data.images.per_class=30", "callbacks=none", "extras.report=false"]
    folder = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    first = train(config("train", *images, *folder, "module.frozen_epochs=1", "trainer.max_epochs=1"))
    learned = train(config("train", *images, *folder, "trainer.max_epochs=12"))
    assert learned["test/corloc"] > max(first["test/corloc"] + 0.08, 0.8)
    assert learned["test/loss"] < first["test/loss"] - 0.2
