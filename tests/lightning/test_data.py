"""Which samples train and test, and the prior of images in the data module."""

import logging

import pytest
import torch
from PIL import Image

from lvmdc import DISC, Supervised
from lvmdc.cli.report import supervision
from lvmdc.learners import strength_losses
from lvmdc.lightning import LatentDataModule
from lvmdc.lightning.detector import known_boxes
from lvmdc.lightning.module import evaluate
from lvmdc.losses import OverlapLoss
from lvmdc.priors import CentredBoxPrior, CentrePrior
from lvmdc.vision.datasets import digit_scenes, folder
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


def write_table(photos, *names):
    rows = [f"{name}.jpg,{name.split('/')[0]},{x},1,{x + 18},20" for x, name in enumerate(names, start=1)]
    (photos / "boxes.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *rows]))


def test_images_without_boxes_train_and_some_of_the_others_test(photos):
    write_table(photos, "cat/0", "cat/1", "cat/2", "dog/2")
    images = folder(photos)
    data = LatentDataModule(images, GRID, HOG(cell=8), fraction=None, progress=False)
    train, test = data.division()
    assert set(train.tolist()) | set(test.tolist()) == set(range(6))
    assert len(test) == 1
    assert bool(images.boxed[test].all())
    assert bool((images.y[test] == 0).all())  # the only box of a dog trains
    data.setup()
    assert torch.equal(data.train.shown, images.boxed[train])
    assert supervision(data) == "labels of 5 images; boxes of 3 images"


def test_boxes_train_only_where_that_is_asked_for_or_some_images_have_none(photos):
    every = [f"{name}/{i}" for name in ("cat", "dog") for i in range(3)]
    write_table(photos, *every)
    for share, count in ((None, 0), (0.0, 0), (0.5, 2), (1.0, 4)):
        data = LatentDataModule(folder(photos), GRID, HOG(cell=8), progress=False, known_boxes=share)
        assert int(data.shown().sum()) == count
        assert not bool(data.shown()[data.division()[1]].any())
    write_table(photos, *every[:5])
    assert int(LatentDataModule(folder(photos), GRID, HOG(cell=8), known_boxes=0.0).shown().sum()) == 0
    with pytest.raises(ValueError, match="known_boxes must be a share between 0 and 1, or None, but it is 2"):
        LatentDataModule(folder(photos), GRID, HOG(cell=8), known_boxes=2)


def test_learners_get_the_h_of_images_with_boxes_alone(photos):
    write_table(photos, "cat/0", "cat/1", "dog/2")
    data = LatentDataModule(folder(photos), GRID, HOG(cell=8), fraction=1, progress=False)
    data.setup()
    h = data.train.h_for(DISC())
    assert [i for i in range(6) if h[i] >= 0] == [0, 1, 5]
    model = DISC(loss=OverlapLoss(), C=10.0).fit(data.train.candidates, data.train.y, h)
    p = model.predict_latent_proba(data.train.candidates, data.train.y)
    known = torch.tensor([0, 1, 5]).to(h.device)
    assert bool((p[data.train.candidates.offsets[known] + h[known]] > 0).all())
    with pytest.raises(ValueError, match="needs h= with the candidate of every sample, but that of sample 2 is unknown"):
        Supervised().fit(data.train.candidates, data.train.y, data.train.h_for(Supervised()))
    measured = evaluate(data.train, model.loss_, *model.predict(data.train.candidates))
    part = data.train.subset(known)
    expected = evaluate(part, model.loss_, *model.predict(part.candidates))
    assert measured["loss"] == pytest.approx(expected["loss"])
    assert measured["overlap"] == pytest.approx(expected["overlap"])
    assert measured["error"] == pytest.approx(float((model.predict(data.train.candidates)[0] != data.train.y).double().mean()))


def test_detectors_get_the_largest_box_of_each_class_in_some_images():
    images = digit_scenes(n_images=30)
    data = LatentDataModule(images, WindowGrid(size=(32, 32), stride=16), HOG(), known_boxes=0.5, progress=False)
    data.setup()
    h = known_boxes(data.train)
    assert int(data.train.shown.sum()) == 9  # of 18
    assert h.shape == (18, len(images.classes))
    assert bool((h[~data.train.shown] == -1).all())
    assert torch.equal((h >= 0)[data.train.shown], data.train.items.table[data.train.shown] == 1)
    assert supervision(data) == "labels of 18 images; boxes of 9 images"


def test_the_strength_of_the_prior_is_chosen_on_the_training_part_alone(photos, caplog):
    settings = {"prior": CentredBoxPrior(), "fraction": 0.6, "progress": False}
    plain, chosen = (
        LatentDataModule(folder(photos), GRID, HOG(cell=8), **settings, prior_strength=strength) for strength in (1.0, [0.5, 2])
    )
    for data in (plain, chosen):
        data.setup()
    learner = DISC(loss=OverlapLoss(), C=10.0)
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        train = chosen.train_with(learner)
    losses = strength_losses(learner, plain.train.candidates, plain.train.y, strengths=[0.5, 2.0])
    best = min(losses, key=losses.__getitem__)
    assert torch.allclose(train.candidates.prior, best * plain.train.candidates.prior)
    assert chosen.train_with(learner) is train
    assert f"strength of the prior: {best:g} × its own" in caplog.text
    assert torch.equal(chosen.test.candidates.prior, plain.test.candidates.prior)
    assert plain.train_with(learner) is plain.train


@pytest.mark.parametrize("strength", ["strong", -1.0, [], [1.0, "a"], float("inf")])
def test_other_strengths_are_refused(photos, strength):
    with pytest.raises(ValueError, match="prior_strength must be a number of at least 0, a list of such numbers, or validation"):
        LatentDataModule(folder(photos), GRID, HOG(cell=8), prior=CentredBoxPrior(), prior_strength=strength)


def test_samples_on_a_device_have_subsets_there(photos, device):
    write_table(photos, "cat/0", "cat/1", "dog/2")
    data = LatentDataModule(folder(photos), GRID, HOG(cell=8), fraction=1, progress=False)
    data.setup()
    there, index = data.train.to(device), torch.tensor([0, 5])
    part, expected = there.subset(index), data.train.subset(index.cpu())
    assert part.candidates.device.type == part.y.device.type == device.type
    assert torch.equal(part.y.cpu(), expected.y)
    assert torch.equal(part.h.cpu(), expected.h)
    assert torch.equal(part.shown.cpu(), expected.shown)
    assert part.items.names == expected.items.names
