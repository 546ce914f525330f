"""Learning end to end: refused settings and data, and no device in any file."""

import re
from pathlib import Path

import pytest
from torch import nn
from two_digits import SETTINGS, data_of, small, train

import lvmdc
from lvmdc import LSVM
from lvmdc.lightning import AlternatingModule, EndToEndModule, ExactModule, LatentDataModule
from lvmdc.vision.datasets import ImageSet, cluttered_digits
from lvmdc.vision.features import HOG, Learned
from lvmdc.vision.proposals.base import WindowGrid

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:pytorch_lightning", "ignore:.*does not have many workers.*", "ignore:.*in eval mode at the start.*"
)


def test_an_unreadable_image_stops_learning_at_once_and_is_named(tmp_path):
    made = cluttered_digits(per_class=6, digits=(0, 4))
    files = [tmp_path / f"{i}.png" for i in range(len(made))]
    for i, file in enumerate(files):
        made.image(i).save(file)
    data = data_of(ImageSet(files, made.classes, made.y, made.boxes))
    data.setup()  # the boxes are known, as from the cache
    for file in files[::2]:
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"\d+\.png cannot be read as an image"):
        train(EndToEndModule(LSVM(**SETTINGS), network=small()), data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"begin": "soon"}, "begin must be one of exact, steps, but it is 'soon'"),
        ({"hold": True, "begin": "steps"}, r"hold keeps h\* where the exact solver left it, so that begin must be 'exact'"),
        ({"frozen_epochs": -1}, "frozen_epochs must be at least 0"),
        ({"clip": 0.0}, "clip positive, but they are 0 and 0.0"),
        ({"prediction": nn.Linear(128, 2)}, "begin and finish must be 'steps' where prediction or conditional is a network"),
    ],
)
def test_impossible_settings_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        EndToEndModule(LSVM(**SETTINGS), network=small(), **settings)


@pytest.mark.parametrize(
    ("make", "features", "message"),
    [
        (lambda: EndToEndModule(LSVM(**SETTINGS), network=small()), HOG(), "the data must have features=learned"),
        (lambda: AlternatingModule(LSVM(**SETTINGS)), Learned(), "features=learned are learned by module=end_to_end"),
        (lambda: ExactModule(LSVM(**SETTINGS)), Learned(), "features=learned are learned by module=end_to_end"),
    ],
)
def test_features_that_would_not_be_used_are_refused(make, features, message):
    data = LatentDataModule(cluttered_digits(per_class=3, digits=(0, 4)), WindowGrid(stride=16), features, batch_size=4, progress=False)
    with pytest.raises(ValueError, match=message):
        train(make(), data)


def test_no_device_is_named():
    """In no file that a step goes through."""
    package = Path(lvmdc.__file__).parent
    names = ["vision/features/regions", "vision/features/trunk"]
    parts = "alternating averaged batches end_to_end minibatch module networks optimizers region_features"
    for file in (package / f"{name}.py" for name in names + [f"lightning/{part}" for part in parts.split()]):
        assert not re.search(r"cuda|[\"']cpu[\"']", file.read_text(encoding="utf-8")), file.name
