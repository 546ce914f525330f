"""Checkpoints that version 0.1 wrote, before modules and options had their names of today."""

from pathlib import Path

import pytest

from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.lightning.detection_data import DetectionData
from lvmdc.lightning.detector_file import read_detector
from lvmdc.lightning.renamed import renamed

FOLDER = Path(__file__).parent / "version_0_1"


@pytest.mark.parametrize("name", ["exact", "stochastic"])
def test_a_checkpoint_of_version_0_1_predicts_as_its_report_says(name, tmp_path):
    found = read_checkpoint(FOLDER / f"{name}.ckpt")
    data = found.data([], str(tmp_path))
    data.setup("test")
    measures = found.model().measure(data.test)
    loss, error = {"exact": (0.625, 1 / 3), "stochastic": (0.708, 0.5)}[name]
    assert measures["loss"] == pytest.approx(loss, abs=0.05)
    assert measures["error"] == pytest.approx(error, abs=0.05)


def test_a_detector_of_version_0_1_predicts(tmp_path):
    found = read_detector(FOLDER / "detector.ckpt")
    data = found.data_part(DetectionData, [], str(tmp_path))
    _, test = data.setup()
    assert len(found.detector().predict(test.candidates)) > 0


def test_a_configuration_of_today_stays_as_it_is():
    config = {"module": {"_target_": "lvmdc.lightning.ExactModule"}, "data": {"images": {"_target_": "lvmdc.vision.datasets.folder"}}}
    assert renamed(config) == config
