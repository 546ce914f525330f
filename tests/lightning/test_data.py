"""Which samples train and test, and the prior of images in the data module."""

import pytest
import torch
from PIL import Image

from lvmdc.lightning import LatentDataModule
from lvmdc.priors import CentredBoxPrior, CentrePrior
from lvmdc.vision.datasets import folder
from lvmdc.vision.features import HOG
from lvmdc.vision.proposals import WindowGrid

GRID = WindowGrid(size=(16, 16), stride=8)


@pytest.fixture
def photos(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.effect_noise((40, 30), 60).convert("RGB").save(tmp_path / name / f"{i}.jpg")
    return tmp_path


def parts(data):
    return [len(part) for part in data.division()]


def test_all_images_train_without_boxes_unless_a_test_part_is_asked_for(photos):
    assert parts(LatentDataModule(folder(photos), GRID, HOG(cell=8), fraction=None)) == [6, 0]
    assert parts(LatentDataModule(folder(photos), GRID, HOG(cell=8))) == [4, 2]
    rows = [f"{name}/{i}.jpg,{name},1,1,20,20" for name in ("cat", "dog") for i in range(3)]
    (photos / "boxes.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *rows]))
    assert parts(LatentDataModule(folder(photos), GRID, HOG(cell=8), fraction=None)) == [4, 2]


def test_a_prior_that_suggests_boxes_adds_them_and_its_columns(photos):
    made = [
        LatentDataModule(folder(photos), GRID, HOG(cell=8), progress=False, **settings)
        for settings in ({}, {"prior": CentrePrior()}, {"prior": CentredBoxPrior()}, {"prior": CentredBoxPrior(), "prior_columns": 2.0})
    ]
    for data in made:
        data.setup()
    plain, fixed, added, columns = (data.train.candidates for data in made)
    assert plain.prior is None
    assert torch.equal(fixed.features, plain.features)
    assert torch.equal(added.counts, plain.counts + 1)
    assert columns.n_features == added.n_features + 1
    assert torch.allclose(columns.features[:, -1], 2 * added.prior / 10)
    for i in range(len(plain)):
        assert torch.equal(added.subset([i]).boxes[:-1], plain.subset([i]).boxes)


def test_columns_need_a_prior(photos):
    with pytest.raises(ValueError, match="prior_columns=1 needs a prior"):
        LatentDataModule(folder(photos), GRID, HOG(cell=8), prior_columns=1.0)
