"""A detector by its configuration: what a run leaves behind, what it finds, and what it refuses."""

import json
import logging
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from devkits import SIZE, write_devkit
from hydra.utils import instantiate
from PIL import Image
from sklearn.datasets import load_sample_images
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lvmdc.cli.config import checked
from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.proposals import make_proposals
from lvmdc.cli.train import train
from lvmdc.lightning.checkpoint import read_checkpoint
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import cluttered_digits, coco_scenes, digit_scenes

pytestmark = pytest.mark.slow

SMALL = ["experiment=wsod_digits", "data.images.n_images=60", "data.images.digits=[0,4,7]", "method.n_init=1", "method.tol=0.01"]
QUIET = ["extras.progress=false", "extras.threads=1"]


def settings(folder, *more):
    return ["train", *SMALL, *QUIET, f"paths.output_dir='{folder}'", f"paths.log_dir='{folder}'", *more]


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    """The folder of a finished run, and its results."""
    folder = tmp_path_factory.mktemp("detection é")
    coco = "true" if find_spec("pycocotools") else "false"
    measures = train(config(*settings(folder, f"module.coco={coco}", "module.pseudo_score=0.5")))
    results = json.loads((folder / "results.json").read_text())
    assert measures == pytest.approx({name: value for name, value in results.items() if name.startswith("test/")})
    return folder, results


def test_digits_are_found_from_labels_and_ground_truth_boxes_bound_it(run):
    _, measures = run
    assert measures["test/recall"] == 1.0
    assert measures["train/corloc"] > 0.3  # of 36 images, from one start
    assert measures["test_supervised/ap"] > max(0.6, measures["test/ap"])
    assert set(measures) >= {"test/corloc/0", "test/ap/7", "test/ap_11_point", "train_supervised/corloc"}
    assert 0 < measures["test_random/corloc"] < measures["test/corloc"]
    assert 0 <= measures["test_central/corloc"] < measures["test_supervised/corloc"]


def test_the_precisions_of_coco_stand_beside_the_others(run):
    pytest.importorskip("pycocotools")
    folder, measures = run
    assert 0 <= measures["test/coco/AP"] <= measures["test/coco/AP50"] <= 1
    assert measures["test_supervised/coco/AP50"] == pytest.approx(measures["test_supervised/ap"], abs=0.1)  # at the same overlap
    assert "COCO AP" in (folder / "report.html").read_text()


def test_images_are_in_tensorboard_after_each_class_and_at_the_end(run):
    folder, _ = run
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0}).Reload()
    tags = events.Tags()["images"]
    assert {"images/train/0", "images/train/4", "images/train/7", "images/test"} <= set(tags)
    (sheet,) = events.Images("images/train/4")
    assert sheet.step == 1  # the second class
    assert sheet.width > 1000
    assert {"train/objective/4", "test/ap"} <= set(events.Tags()["scalars"])


def test_the_folder_holds_report_images_curves_and_record(run):
    folder, _ = run
    for name in ("report.html", "run.json", "images/all.png", "checkpoints/last.ckpt"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "tensorboard").glob("events*"))
    report = (folder / "report.html").read_text()
    assert "<svg" in report
    assert "CorLoc" in report
    with Image.open(folder / "images" / "all.png") as sheet:
        assert sheet.width > 1000


def test_pseudo_labels_are_coco_annotations_of_the_training_part(run):
    folder, _ = run
    content = json.loads((folder / "pseudo_labels.json").read_text())
    again = coco_scenes(folder / "pseudo_labels.json", content["info"]["images_dir"])
    scenes = digit_scenes(n_images=60, digits=(0, 4, 7))
    train = scenes.subset(scenes.split()[0])
    assert again.classes == train.classes
    assert torch.equal(again.labels, train.labels)
    assert np.array_equal(np.asarray(again.image(3)), np.asarray(train.image(3)))
    assert len(again.truth) >= int((train.labels == 1).sum())


def test_eval_gives_the_numbers_of_the_run(run, config, tmp_path):
    folder, measures = run
    found = evaluate_checkpoint(config("eval", f"ckpt_path='{folder}/checkpoints/last.ckpt'", f"paths.output_dir={tmp_path}"))
    assert found == pytest.approx({k.removeprefix("test/"): v for k, v in measures.items() if k.startswith("test/")}, abs=1e-6)
    other = config("eval", f"ckpt_path='{folder}'", "overrides=['module.iou=0.3']", f"paths.output_dir={tmp_path}")  # a run folder
    assert evaluate_checkpoint(other)["corloc"] >= found["corloc"]


def test_objects_in_custom_images_come_with_scores_and_drawings(run, config, tmp_path):
    folder, _ = run
    scenes = digit_scenes(n_images=3, digits=(0, 4, 7), seed=9)
    (tmp_path / "photos").mkdir()
    for i in range(3):
        scenes.image(i).save(tmp_path / "photos" / f"{i}.png")
    Image.new("RGB", (96, 96)).save(tmp_path / "photos" / "empty.png")
    common = [f"ckpt_path='{folder}/checkpoints/last.ckpt'", f"input={tmp_path}/photos"]
    # From 36 images little is probable.
    path = predict_images(config("predict", *common, f"output={tmp_path}/out", "min_score=0.02", f"paths.output_dir={tmp_path}"))
    content = json.loads(path.read_text())
    assert [entry["name"] for entry in content["images"]] == ["0.png", "1.png", "2.png", "empty.png"]
    found = content["images"][0]["objects"]
    assert found
    assert all(entry["score"] > 0 and entry["class"] in ("0", "4", "7") and len(entry["box"]) == 4 for entry in found)
    assert [e["score"] for e in found] == sorted((e["score"] for e in found), reverse=True)
    for entry in content["images"]:
        assert (path.parent / entry["drawing"]).is_file()
    none = predict_images(config("predict", *common, f"output={tmp_path}/none", "min_score=1000.0", f"paths.output_dir={tmp_path}"))
    assert all(entry["objects"] == [] for entry in json.loads(none.read_text())["images"])


def test_a_killed_run_goes_on_with_the_next_class(run, config, tmp_path, caplog):
    folder, measures = run
    content = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    saved = content["lvmdc"]["learned"]
    del saved["history"]["2"]
    saved["coef"][2] = 0
    loop = content["loops"]["fit_loop"]["epoch_progress"]
    for kind in ("total", "current"):
        loop[kind] = dict.fromkeys(loop[kind], 2)
    content["epoch"] = 1
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "last.ckpt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"has not learned the class '7' yet: resume its training first"):
        read_checkpoint(path).model()
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        resumed = train(config(*settings(tmp_path, f"ckpt_path={tmp_path}", "module.supervised=false")))
    assert resumed["test/ap"] == pytest.approx(measures["test/ap"], abs=1e-6)
    assert not any("supervised" in name for name in json.loads((tmp_path / "results.json").read_text()))
    assert read_checkpoint(path).model().detector.n_classes_ == 3


def test_a_detector_of_version_0_1_is_resumed(config, tmp_path):
    """It knows which classes it has learned, and nothing of Lightning."""
    old = Path(__file__).parents[1] / "lightning" / "version_0_1" / "detector.ckpt"
    saved = read_checkpoint(old)
    digits = [int(name) for name in saved.classes]
    content = torch.load(old, weights_only=True)
    del content["lvmdc detector"]["learned"]["history"][str(len(digits) - 1)]
    torch.save(content, tmp_path / "old.ckpt")
    words = [f"data.images.{name}={value}" for name, value in saved.config["data"]["images"].items() if name != "_target_"]
    words += [f"data.fold={saved.config['data']['fold']}", "module.supervised=false", "method.n_init=1", "method.tol=0.1"]
    parts = [f"{part}.{name}={value}" for part in ("features", "proposals") for name, value in saved.config[part].items()]
    words += [word.replace(" ", "") for word in parts if "_target_" not in word]
    places = [f"paths.output_dir='{tmp_path}/out'", f"paths.log_dir='{tmp_path}'"]
    measures = train(config("train", "experiment=wsod_digits", *QUIET, *words, *places, f"ckpt_path='{tmp_path}/old.ckpt'"))
    assert 0 <= measures["test/ap"] <= 1
    new = read_checkpoint(tmp_path / "out")
    assert torch.equal(new.learned["coef"][0], saved.learned["coef"][0])  # which was not learned again
    assert new.model().classes == saved.classes


def test_a_data_set_on_disk_is_learned_from_by_its_config(run, config, tmp_path, caplog):
    """The pseudo-labels of the run as the annotations of another."""
    folder, _ = run
    overrides = ["data=coco_scenes", f"data.images.json_path='{folder}/pseudo_labels.json'", f"data.images.images_dir='{folder}/images'"]
    overrides += ["method=lsvm", "module.supervised=false", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        measures = train(config("train", "experiment=wsod_digits", *QUIET, *overrides))
    assert 0 <= measures["test/ap"] <= 1
    assert "coco_scenes (data on disk): 36 images of 3 classes" in caplog.text


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("method=supervised", "method=supervised needs ground-truth boxes"),
        ("module=dual", "these images have several labels each: use module=detector with them"),
        ("method.C=-1.0", "C must be a positive number"),
        ("module.detector.bias=0.0", "bias must be positive"),
        ("data.fraction=1.5", "fraction must lie between 0 and 1"),
        ("proposals=people", "include_truth needs images whose ground-truth boxes are known"),
        ("trainer=ddp", "a detector learns on one device, but the trainer, or torchrun, asks for several"),
        ("trainer.accelerator=tpu", "trainer: .*torch_xla"),  # asked for, and not here
        ("module.pseudo_score=2.0", r"module\.pseudo_score must be a probability, or null, but it is 2\.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(override, sentence, config, tmp_path):
    with pytest.raises(Exception, match=sentence):
        train(config(*settings(tmp_path, override)))


@pytest.mark.parametrize(("cost", "expected"), [("balanced", "balanced"), ("3", 3)])
def test_the_cost_of_a_miss_may_be_a_number_or_a_word(cost, expected, config):
    cfg = config("train", "experiment=wsod_voc", f"module.detector.miss_cost={cost}")
    assert instantiate(checked(cfg).module.detector).miss_cost == expected
    assert instantiate(config("train", "experiment=wsod_voc").module.detector).miss_cost == 2.0


def test_data_and_module_must_go_together(config, tmp_path):
    places = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    with pytest.raises(ValueError, match="several labels each: use module=detector"):
        train(config("train", "data=digit_scenes", *QUIET, *places))
    with pytest.raises(ValueError, match="a detector needs images, but these data make their candidates themselves"):
        train(config("train", "data=rotated_digits", "proposals=none", "features=none", "module=detector", *QUIET, *places))


def test_boxes_are_proposed_for_images_with_several_objects(config, tmp_path, caplog):
    overrides = ["data=digit_scenes", "data.images.n_images=4", "extras.progress=false", f"paths.output_dir={tmp_path}"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        path = make_proposals(config("make_proposals", *overrides))
    assert np.load(path, allow_pickle=False)["counts"].tolist() == [81] * 4
    assert "81.0 boxes per image, 100.0 % of the ground-truth boxes found" in caplog.text


VOC = ["experiment=wsod_voc", *QUIET]


def voc_folders(folder):
    return [f"paths.{name}='{folder}'" for name in ("data_dir", "output_dir", "log_dir", "cache_dir")]


def test_the_voc_experiment_names_a_devkit_that_is_missing(config, tmp_path):
    with pytest.raises(Exception, match=r"VOC2007 of the VOC 2007 devkit does not exist"):
        train(config("train", *VOC, *voc_folders(tmp_path)))


def test_the_voc_experiment_finds_pieces_of_photographs(config, tmp_path):
    """Eight images with a piece of each of two photographs, on grey, at places and of sizes that only annotations say."""
    people, shown, pieces = {}, {}, dict(zip(("running", "reading"), load_sample_images().images, strict=True))
    for i in range(16):
        action, x, y = ("running", "reading")[i % 2], 2 + 3 * (i % 4), 1 + 2 * (i % 3)
        corners = (x, y, x + 17 + i % 5, y + 19)
        people[f"{i}"] = [(*corners, action)]
        shown[f"{i}"] = (corners, Image.fromarray(pieces[action][60:360, 150:450]))
    write_devkit(tmp_path / "VOCdevkit", people)
    for name, (corners, piece) in shown.items():
        image = Image.new("RGB", SIZE, "grey")
        image.paste(piece.resize((corners[2] - corners[0] + 1, corners[3] - corners[1] + 1)), (corners[0] - 1, corners[1] - 1))
        image.save(tmp_path / "VOCdevkit" / "VOC2011" / "JPEGImages" / f"{name}.jpg", quality=95)
    scenes = {"year": 2011, "image_set": "Action", "label": "action", "train": "trainval", "test": "null", "truncated": "difficult"}
    measures = train(config("train", *VOC, *voc_folders(tmp_path), *(f"data.images.{name}={value}" for name, value in scenes.items())))
    assert measures["test/recall"] > 0.8
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["train/corloc"] > 0.5
    assert results["train_supervised/corloc"] > 0.8
    content = json.loads((tmp_path / "pseudo_labels.json").read_text())
    assert content["info"]["images_dir"] == str(tmp_path / "VOCdevkit" / "VOC2011" / "JPEGImages")
    assert [row["name"] for row in content["categories"]] == ["reading", "running"]


def test_the_boxes_of_some_images_train_too(config, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        measures = train(config(*settings(tmp_path, "data.known_boxes=0.5", "module.supervised=false")))
    assert "supervision used: labels of 36 images; boxes of 18 images" in caplog.text
    assert measures["test/corloc"] > 0
    assert read_checkpoint(tmp_path).config["data"]["known_boxes"] == 0.5


def test_a_folder_by_class_is_detected_in_by_its_configuration(config, tmp_path):
    images = cluttered_digits(per_class=6, digits=[0, 4])
    for i in range(len(images)):
        file = tmp_path / "photos é" / images.classes[int(images.y[i])] / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(images.image(i))).save(file)
    words = [
        "experiment=wsod_digits",
        "data=folder",
        f"data.images.path='{tmp_path / 'photos é'}'",
        "module.supervised=false",
        "data.fraction=0.6",
    ]
    others = ["method.n_init=1", "method.tol=0.01", f"paths.output_dir='{tmp_path / 'out'}'", f"paths.log_dir='{tmp_path / 'logs'}'"]
    train(config("train", *words, *QUIET, *others))
    found = json.loads((tmp_path / "out" / "pseudo_labels.json").read_text(encoding="utf-8"))
    learned, _ = split_by_class(images.y)
    assert {image["file_name"] for image in found["images"]} == {f"{images.classes[int(images.y[i])]}/{i:02}.png" for i in learned.tolist()}
