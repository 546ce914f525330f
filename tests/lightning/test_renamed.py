"""Checkpoints that version 0.1 wrote, before modules and options had their names of today."""

from pathlib import Path

import pytest
from three_digits import train

from lvmdc.learners import LatentLearner
from lvmdc.lightning import DualModule
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.lightning.renamed import renamed_config, renamed_words
from lvmdc.lightning.trusted import construct

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*")

FOLDER = Path(__file__).parent / "version_0_1"


@pytest.mark.parametrize("name", ["exact", "stochastic"])
def test_a_checkpoint_of_version_0_1_predicts_as_its_report_says(name, tmp_path):
    found = read_checkpoint(FOLDER / f"{name}.ckpt").overridden([], str(tmp_path))
    data = found.data()
    data.setup("test")
    measures = found.model().measure(data.test)
    loss, error = {"exact": (0.625, 1 / 3), "stochastic": (0.708, 0.5)}[name]
    assert measures["loss"] == pytest.approx(loss, abs=0.05)
    assert measures["error"] == pytest.approx(error, abs=0.05)


def test_a_training_of_version_0_1_is_resumed(tmp_path):
    found = read_checkpoint(FOLDER / "stochastic.ckpt")
    make = construct(found.config["module"] | {"_partial_": True}, "a.ckpt")
    module = make(learner=found.part("method", LatentLearner), config=found.config)
    assert isinstance(module, DualModule)
    before = found.learned["history"]
    train(module, found.overridden([], str(tmp_path)).data(), epochs=len(before) + 2, ckpt_path=FOLDER / "stochastic.ckpt")
    assert [row["objective"] for row in module.history()[: len(before)]] == [row["objective"] for row in before]
    assert len(module.history()) == len(before) + 2
    assert module.history()[-1]["objective"] <= before[-1]["objective"] + 1e-4  # the dual never falls


@pytest.mark.parametrize(
    ("options", "method", "name"),
    [
        ({"dual": None, "norm": "l2", "prediction": {}}, "lvmdc.DISC", "DualModule"),
        ({"dual": False, "norm": "l2", "patience": 3}, "lvmdc.LSVM", "AlternatingModule"),
        (
            {"dual": None, "norm": "l2", "prediction": {"_target_": "lvmdc.lightning.mlp", "_partial_": True}},
            "lvmdc.DISC",
            "AlternatingModule",
        ),
        ({"dual": None, "norm": "l1", "optimizer_w": None}, "lvmdc.DISC", "SparseModule"),
        ({"dual": None, "norm": "l2"}, "lvmdc.SoftDISC", "SoftModule"),
    ],
)
def test_each_stochastic_module_of_version_0_1_has_a_successor_that_takes_its_options(options, method, name):
    old = {"solver": {"_target_": "lvmdc.training.StochasticModule"} | options, "method": {"_target_": method}}
    found = renamed_config(old)
    assert found["module"]["_target_"] == f"lvmdc.lightning.{name}"
    learner = construct(found["method"], "a.ckpt")
    assert type(construct(found["module"] | {"_partial_": True}, "a.ckpt")(learner=learner)).__name__ == name


def test_a_detector_of_version_0_1_predicts(tmp_path):
    found = read_checkpoint(FOLDER / "detector.ckpt").overridden(["data.scenes.noise=0.02"], str(tmp_path))
    data = found.data()
    data.setup("test")
    assert len(found.model().detector.predict(data.test.candidates)) > 0
    assert found.config["data"]["images"]["noise"] == 0.02  # overrides may have the old names, too


def test_a_configuration_of_today_stays_as_it_is():
    config = {"module": {"_target_": "lvmdc.lightning.ExactModule"}, "data": {"images": {"_target_": "lvmdc.vision.datasets.folder"}}}
    assert renamed_config(config) == config


def test_images_of_one_class_each_that_a_detector_learned_from_are_images_today():
    folder = {"_target_": "lvmdc.data.folder", "path": "photos"}
    config = {
        "data": {
            "_target_": "lvmdc.training.detection_data.DetectionData",
            "scenes": {"_target_": "lvmdc.data.as_scenes", "images": folder},
        }
    }
    expected = {"_target_": "lvmdc.lightning.LatentDataModule", "images": folder | {"_target_": "lvmdc.vision.datasets.folder"}}
    assert renamed_config(config)["data"] == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("disc.J=0.1", "method.J=0.1"),
        ("svm.cccp=eager", "method.cccp=eager"),
        ("~cnn.normalise=1", "~features.normalise=1"),
        ("data.scenes.n_pictures=4", "data.images.n_images=4"),
        ("data.scenes.images.path='my photos'", "data.images.path='my photos'"),
        ("data=folder_scenes", "data=folder"),
        ("detection=weak", "module=detector"),
        ("detection.detector.bias=2", "module.detector.bias=2"),
        ("detection.bound=false", "module.supervised=false"),
    ],
)
def test_an_old_word_of_the_command_line_becomes_the_new_one_with_a_message(old, new, caplog):
    assert renamed_words([old, "seed=1"]) == [new, "seed=1"]
    assert f"{old} is now called {new}" in caplog.text


def test_the_names_of_cccp_in_version_0_1_become_those_of_today():
    config = {"method": {"_target_": "lvmdc.LSVM", "cccp": "strict"}, "svm": {"cccp": "full"}}
    assert renamed_config(config) == {"method": {"_target_": "lvmdc.LSVM", "cccp": "inexact"}, "svm": {"cccp": "exact"}}


def test_what_was_dropped_is_left_out_of_a_configuration_and_its_solvers_are_replaced():
    method = {"_target_": "lvmdc.EM", "C": 1.0, "decision": "joint"}
    module = {"_target_": "lvmdc.lightning.EndToEndModule", "clip": 1.0, "alternate": True, "theta_to_backbone": False}
    assert renamed_config({"method": method, "module": module}) == {
        "method": {"_target_": "lvmdc.EM", "C": 1.0},
        "module": {"_target_": "lvmdc.lightning.EndToEndModule", "clip": 1.0},
    }
    for old in ("pegasos", "frank_wolfe"):
        assert renamed_config({"method": {"solver": old}}) == {"method": {"solver": "n_slack"}}
    assert renamed_config({"method": {"solver": "one_slack"}}) == {"method": {"solver": "one_slack"}}
