"""From a folder of photographs by class to drawn boxes, as a new user would."""

import json
import logging
import re

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.train import train
from lvmdc.lightning import LatentDataModule
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.vision.datasets import folder
from lvmdc.vision.features import HOG, Features
from lvmdc.vision.proposals import WindowGrid

pytestmark = pytest.mark.slow

QUIET = ["extras.progress=false", "extras.threads=1", "callbacks=checkpoint", "features.longer_side=160", "method.tol=0.01"]


def write_photos(root, each=6):
    """A piece of one of two photographs on grey, at places and of sizes that only the table says; the rows of the table."""
    rows = []
    for name, piece in zip(("roof", "flower"), load_sample_images().images, strict=True):
        (root / name).mkdir(parents=True)
        whole = Image.fromarray(piece[60:360, 150:450])
        for i in range(each):
            side, x, y = 56 + 4 * (i % 3), 8 + 9 * (i % 4), 6 + 5 * (i % 3)
            image = Image.effect_noise((128, 96), 20).convert("RGB")
            image.paste(whole.resize((side, side)), (x, y))
            image.save(root / name / f"{i}.png")
            rows.append(f"{name}/{i}.png,{name},{x},{y},{x + side},{y + side}")
    return rows


def settings(photos, folder, *more):
    places = [f"paths.{name}='{folder}'" for name in ("output_dir", "log_dir")]
    return ["train", "experiment=photos", f"data.images.path='{photos}'", *QUIET, *places, *more]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photographs without boxes."""
    root = tmp_path_factory.mktemp("my photos é")
    write_photos(root)
    return root


@pytest.fixture(scope="module")
def run(photos, config, tmp_path_factory):
    """The folder of a run without boxes, its measures and what it logged."""
    out, lines = tmp_path_factory.mktemp("run"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log = logging.getLogger("lvmdc")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        measures = train(config(*settings(photos, out)))
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return out, measures, "\n".join(lines)


def test_without_boxes_all_images_train_and_the_run_says_what_it_cannot_measure(run):
    out, measures, said = run
    assert measures == {}
    assert "12 images of 2 classes, all train" in said
    assert "supervision used: labels of 12 images; a classifier trained on ImageNet" in said
    assert "how well objects are found cannot be measured" in said
    assert re.search(r"part +class error\n-+ +-+\ntraining +\d+\.\d %", said)
    assert "s per image; peak memory so far" in said
    added = re.search(r"Training images: (\d+) of 12 boxes are not proposals but boxes that the prior added \(centred box, [a-z ]+\)", said)
    assert added
    assert 0 <= int(added[1]) <= 12
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "how well objects are found cannot be measured" in report
    assert "Supervision used: labels of 12 images; a classifier trained on ImageNet" in report
    assert f"{added[0]}: check them" in report
    assert "the model&#39;s own belief about h" in report
    legend = report[report.index("<h2>Images</h2>") :]
    assert "predicted box" in legend
    assert "ground-truth box" not in legend.replace("No ground-truth boxes", "")
    for name in ("report.html", "images/all.png", "checkpoints/last.ckpt"):
        assert (out / name).stat().st_size > 0
    content = json.loads((out / "pseudo_labels.json").read_text())
    assert len(content["images"]) == 12


def test_each_image_went_through_the_network_once(run):
    out, _, _ = run
    assert len(list((out / "cache").glob("map-*.npz"))) == 12


@pytest.mark.parametrize(("more", "counts"), [([], {1}), (["top_k=3"], {1, 2, 3}), (["min_score=0.999999"], {0, 1, 2, 3})])
def test_new_photographs_get_their_best_box_unless_more_is_asked_for(more, counts, run, photos, config, tmp_path):
    out, _, _ = run
    words = [f"ckpt_path='{out}'", f"input='{photos / 'roof'}'", f"output={tmp_path}/out", f"paths.output_dir={tmp_path}", *more]
    path = predict_images(config("predict", *words))
    entries = json.loads(path.read_text())["images"]
    assert len(entries) == 6
    assert {len(entry["objects"]) for entry in entries} <= counts
    for entry in entries:
        assert (path.parent / entry["drawing"]).is_file()
        for found in entry["objects"]:
            x1, y1, x2, y2 = found["box"]
            assert 0 <= x1 < x2 <= 128
            assert 0 <= y1 < y2 <= 96


def test_predictions_are_those_of_training(run, photos, config, tmp_path):
    """The prior's own boxes are candidates in both, from what was fitted in training."""
    out, _, _ = run
    words = [f"ckpt_path='{out}'", f"input='{photos}'", f"output={tmp_path}/out", f"paths.output_dir={tmp_path}", "top_k=20"]
    entries = json.loads(predict_images(config("predict", *words)).read_text())["images"]
    boxes = {
        entry["name"]: [found["box"] for found in entry["objects"] if found["class"] == entry["name"].split("/")[0]] for entry in entries
    }
    content = json.loads((out / "pseudo_labels.json").read_text())
    names = {image["id"]: image["file_name"] for image in content["images"]}
    same = 0
    for row in content["annotations"]:
        x, y, w, h = row["bbox"]
        same += bool(boxes[names[row["image_id"]]]) and np.allclose(boxes[names[row["image_id"]]][0], [x, y, x + w, y + h], atol=1.5)
    assert same >= 11  # of 12; half precision may decide a tie


def test_boxes_that_the_prior_added_are_marked_and_counted(run, photos, config, tmp_path, caplog):
    out, _, _ = run
    words = [f"ckpt_path='{out}'", f"input='{photos}'", f"output={tmp_path}/out", f"paths.output_dir={tmp_path}", "min_score=0.0"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        entries = json.loads(predict_images(config("predict", *words)).read_text())["images"]
    found = [object_ for entry in entries for object_ in entry["objects"]]
    prior = read_checkpoint(out).prior()
    for entry in entries:
        own = prior.boxes(Image.open(photos / entry["name"]).convert("RGB")).numpy()
        for object_ in entry["objects"]:
            assert object_.get("from_prior", False) == bool(np.isclose(own, object_["box"], atol=2e-3).all(axis=1).any())
    marked = sum("from_prior" in object_ for object_ in found)
    assert marked > 0
    assert f"{marked} of {len(found)} boxes are not proposals but boxes that the prior added" in caplog.text
    assert f"drawings     {tmp_path}/out/images" in caplog.text


def test_a_checkpoint_without_a_test_part_is_not_evaluated(run, config, tmp_path):
    out, _, _ = run
    with pytest.raises(ValueError, match="the data have no test part, all images were used for training"):
        evaluate_checkpoint(config("eval", f"ckpt_path='{out}'", f"paths.output_dir={tmp_path}", f"paths.cache_dir='{out}/cache'"))


def test_a_folder_that_is_no_run_is_refused(config, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be a checkpoint or a run folder"):
        evaluate_checkpoint(config("eval", f"ckpt_path={tmp_path}", f"paths.output_dir={tmp_path}"))


def test_with_boxes_every_baseline_is_measured_too(config, tmp_path, caplog):
    rows = write_photos(tmp_path / "photos")
    (tmp_path / "photos" / "boxes.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *rows]))
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        measures = train(config(*settings(tmp_path / "photos", tmp_path / "out", "data.prior_columns=1.0", "data.prior_strength=[0.5,1]")))
    assert "strength of the prior: " in caplog.text
    guesses = ("central", "random", "centred_box", "prior", "centred_box_prior", "common_object_prior")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    for name in (*guesses, "supervised"):
        assert 0 <= results[f"test_{name}/corloc"] <= 1
    assert measures["test/recall"] > 0.8
    found = evaluate_checkpoint(
        config("eval", f"ckpt_path='{tmp_path}/out'", f"paths.output_dir={tmp_path}", f"paths.cache_dir='{tmp_path}/out/cache'")
    )
    assert found["corloc"] == pytest.approx(measures["test/corloc"])


def test_images_with_boxes_and_images_with_labels_only_train_together(config, tmp_path, caplog):
    rows = write_photos(tmp_path / "photos")
    some = [row for i, row in enumerate(rows) if i % 2]  # 3 of the 6 images of a class
    (tmp_path / "photos" / "boxes.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *some]))
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        measures = train(config(*settings(tmp_path / "photos", tmp_path / "out")))
    assert "boxes of 6 images from" in caplog.text
    assert "12 images of 2 classes, 10 train, 2 test, fold 0" in caplog.text
    assert "supervision used: labels of 10 images; boxes of 4 images; a classifier trained on ImageNet" in caplog.text
    assert 0 <= measures["test/corloc"] <= 1
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "test_centred_box/corloc" in results
    assert "test_supervised/corloc" not in results  # which would need all boxes
    assert len(json.loads((tmp_path / "out" / "pseudo_labels.json").read_text())["images"]) == 10
    found = evaluate_checkpoint(
        config("eval", f"ckpt_path='{tmp_path}/out'", f"paths.output_dir={tmp_path}", f"paths.cache_dir='{tmp_path}/out/cache'")
    )
    assert found["corloc"] == pytest.approx(measures["test/corloc"])


def test_proposals_that_reach_little_are_named_before_training(tmp_path, caplog):
    rows = write_photos(tmp_path)
    with caplog.at_level(logging.WARNING):
        LatentDataModule(folder(tmp_path), WindowGrid(size=(16, 16), stride=16), HOG(cell=8), progress=False).setup()
    assert "the largest proposal covers 2.1 % of its image" in caplog.text
    (tmp_path / "boxes.csv").write_text("\n".join(["image,label,x1,y1,x2,y2", *rows]))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        LatentDataModule(folder(tmp_path), WindowGrid(size=(16, 16), stride=16), HOG(cell=8), progress=False).setup()
    assert "proposals find only 0.0 % of the ground-truth boxes" in caplog.text


def test_bad_files_end_the_run_before_any_work(config, tmp_path):
    write_photos(tmp_path / "photos")
    for name in ("roof/0.png", "flower/3.png"):
        (tmp_path / "photos" / name).write_bytes(b"damaged")
    with pytest.raises(Exception, match=r"flower/3\.png cannot be read .*roof/0\.png cannot be read"):
        train(config(*settings(tmp_path / "photos", tmp_path / "out")))
    assert not (tmp_path / "out" / "cache").exists()


def test_all_images_to_predict_are_opened_before_any_is_predicted(run, config, tmp_path):
    write_photos(tmp_path / "new")
    for name in ("roof/0.png", "flower/3.png"):
        (tmp_path / "new" / name).write_bytes((tmp_path / "new" / name).read_bytes()[:2000])
    words = [f"ckpt_path='{run[0]}'", f"input={tmp_path}/new", f"output={tmp_path}/out", f"paths.output_dir={tmp_path}"]
    with pytest.raises(ValueError, match=r"new cannot be predicted: .*flower/3\.png cannot be read .*roof/0\.png cannot be read"):
        predict_images(config("predict", *words))
    assert not (tmp_path / "out").exists()


def test_the_detector_of_one_class_each_refuses_other_images_before_any_work(config, tmp_path):
    words = ["data=digit_scenes", "module=exclusive_detector", f"paths.output_dir='{tmp_path}'", f"paths.log_dir='{tmp_path}'"]
    with pytest.raises(ValueError, match="exactly one class each"):
        train(config("train", *words, *QUIET[:3]))
    assert not (tmp_path / "cache").exists()


def test_without_a_test_part_nothing_is_measured_from_a_checkpoint(run, photos, config, tmp_path):
    with pytest.raises(ValueError, match=r"the data have none; ask for one by data\.fraction"):
        train(config(*settings(photos, tmp_path, "train=false", f"ckpt_path='{run[0]}'")))


def test_a_checkpoint_does_not_choose_where_maps_are_written(run):
    out, _, _ = run
    file = read_checkpoint(out)
    assert file.config["features"]["maps_dir"] == f"{out}/cache"
    for made in (file.part("features", Features), file.prior().priors[1].network):
        assert made._maps.directory is None
    assert torch.is_tensor(file.learned["prior"]["1"]["direction"])
