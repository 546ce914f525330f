"""A detector by its configuration: what a run leaves behind, what it finds, and what it refuses."""

import json
import logging
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from devkits import SIZE, write_devkit
from PIL import Image
from sklearn.datasets import load_sample_images
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lvmdc import Candidates
from lvmdc.cli.errors import check_types
from lvmdc.cli.evaluate import evaluate_checkpoint, predict_images
from lvmdc.cli.proposals import make_proposals
from lvmdc.cli.train import detect, make_detector, train
from lvmdc.lightning.detector_file import DETECTOR_KEY, is_detector, read_detector
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets import cluttered_digits, coco_scenes, digit_scenes, split_scenes

pytestmark = pytest.mark.slow

SMALL = ["experiment=wsod_digits", "data.scenes.n_images=60", "data.scenes.digits=[0,4,7]", "method.n_init=1", "method.tol=0.01"]
QUIET = ["extras.progress=false", "extras.threads=1"]


def settings(folder, *more):
    return ["train", *SMALL, *QUIET, f"paths.output_dir='{folder}'", f"paths.log_dir='{folder}'", *more]


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    """The folder of a finished run, and its measures."""
    folder = tmp_path_factory.mktemp("detection é")
    coco = "true" if find_spec("pycocotools") else "false"
    return folder, detect(config(*settings(folder, f"detection.coco={coco}", "detection.pseudo_score=0.5")))


def test_digits_are_found_from_labels_and_told_places_bound_it(run):
    folder, measures = run
    assert json.loads((folder / "results.json").read_text()) == pytest.approx(measures)
    assert measures["test/recall"] == 1.0
    assert measures["train/corloc"] > 0.3  # of 36 images, from one start
    assert measures["test_told/ap"] > max(0.6, measures["test/ap"])
    assert set(measures) >= {"test/corloc/0", "test/ap/7", "test/ap_11_point", "train_told/corloc"}
    assert 0 < measures["test_random/corloc"] < measures["test/corloc"]
    assert 0 <= measures["test_central/corloc"] < measures["test_told/corloc"]


def test_the_precisions_of_coco_stand_beside_the_others(run):
    pytest.importorskip("pycocotools")
    folder, measures = run
    assert 0 <= measures["test/coco/AP"] <= measures["test/coco/AP50"] <= 1
    assert measures["test_told/coco/AP50"] == pytest.approx(measures["test_told/ap"], abs=0.1)  # at the same overlap
    assert "COCO AP" in (folder / "report.html").read_text()


def test_images_are_in_tensorboard_after_each_class_and_at_the_end(run):
    folder, _ = run
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0}).Reload()
    tags = events.Tags()["images"]
    assert {"train/0", "train/4", "train/7", "test/0", "test/23"} <= set(tags)
    (sheet,) = events.Images("train/4")
    assert sheet.step == 1  # the second class
    assert sheet.width > 1000
    assert {"train/objective/4", "final/test/ap"} <= set(events.Tags()["scalars"])


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
    train = scenes.subset(split_scenes(scenes)[0])
    assert again.classes == train.classes
    assert torch.equal(again.labels, train.labels)
    assert np.array_equal(np.asarray(again.image(3)), np.asarray(train.image(3)))
    assert len(again.truth) >= int((train.labels == 1).sum())


def test_eval_gives_the_numbers_of_the_run(run, config, tmp_path):
    folder, measures = run
    found = evaluate_checkpoint(config("eval", f"ckpt_path='{folder}/checkpoints/last.ckpt'", f"paths.output_dir={tmp_path}"))
    assert found == pytest.approx({k.removeprefix("test/"): v for k, v in measures.items() if k.startswith("test/")})


def test_objects_in_ones_own_images_come_with_scores_and_drawings(run, config, tmp_path):
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
    del content[DETECTOR_KEY]["learned"]["history"]["2"]
    content[DETECTOR_KEY]["learned"]["coef"][2] = 0
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "last.ckpt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"has not learned the class '7' yet: resume its training first"):
        read_detector(path).detector()
    resumed = detect(config(*settings(tmp_path, f"ckpt_path={path}", "detection.bound=false")))
    assert resumed["test/ap"] == pytest.approx(measures["test/ap"])
    assert not any("told" in name for name in resumed)
    assert read_detector(path).detector().n_classes_ == 3


def test_a_data_set_on_disk_is_learned_from_by_its_config(run, config, tmp_path, caplog):
    """The pseudo-labels of the run as the annotations of another."""
    folder, _ = run
    overrides = ["data=coco_scenes", f"data.scenes.json_path='{folder}/pseudo_labels.json'", f"data.scenes.images_dir='{folder}/images'"]
    overrides += ["method=lsvm", "detection.bound=false", f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        measures = detect(config("train", "experiment=wsod_digits", *QUIET, *overrides))
    assert 0 <= measures["test/ap"] <= 1
    assert "coco_scenes (data on disk): 36 images of 3 classes" in caplog.text


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("method=supervised", "method=supervised needs to be told where objects are"),
        ("module=dual", "a detector of several classes is learned exactly: use module=exact"),
        ("method.C=-1.0", "C must be a positive number"),
        ("detection.detector.bias=0.0", "bias must be positive"),
        ("data.fraction=1.0", "fraction must lie between 0 and 1"),
        ("proposals=people", "proposals must not need the true box"),
        ("trainer=ddp", "a detector learns on one device, but the trainer, or torchrun, asks for 2"),
        ("trainer.accelerator=tpu", "full_key: trainer"),  # asked for, and not here
        ("detection.pseudo_score=2.0", r"detection\.pseudo_score must be a probability, or null, but it is 2\.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(override, sentence, config, tmp_path):
    with pytest.raises(Exception, match=sentence):
        detect(config(*settings(tmp_path, override)))


@pytest.mark.parametrize(("cost", "expected"), [("balanced", "balanced"), ("3", 3)])
def test_the_cost_of_a_miss_may_be_a_number_or_a_word(cost, expected, config):
    cfg = config("train", "experiment=wsod_voc", f"detection.detector.miss_cost={cost}")
    check_types(cfg, Path(__file__).resolve().parents[2] / "configs")
    assert make_detector(cfg).miss_cost == expected
    assert make_detector(config("train", "experiment=wsod_voc")).miss_cost == 2.0


def test_candidates_are_where_the_trainer_says(config, tmp_path, monkeypatch):
    asked = []

    def to(self, device=None, dtype=None):
        asked.append(device)
        return self

    def stop(*arguments):
        raise InterruptedError

    monkeypatch.setattr("lvmdc.cli.train.one_device", lambda cfg: torch.device("cuda:0"))
    monkeypatch.setattr("lvmdc.cli.train.learn", stop)
    monkeypatch.setattr(Candidates, "to", to)
    with pytest.raises(InterruptedError):
        detect(config(*settings(tmp_path)))
    assert asked[-2:] == [torch.device("cuda:0")] * 2  # both parts


def test_data_and_task_must_go_together(config, tmp_path):
    places = [f"paths.output_dir={tmp_path}", f"paths.log_dir={tmp_path}"]
    with pytest.raises(ValueError, match="several labels each: use detection=weak"):
        train(config("train", "data=digit_scenes", *QUIET, *places))
    with pytest.raises(ValueError, match="detection=weak needs images with several labels each"):
        detect(config("train", "detection=weak", *QUIET, *places))


def test_boxes_are_proposed_for_images_with_several_objects(config, tmp_path, caplog):
    overrides = ["data=digit_scenes", "data.scenes.n_images=4", "extras.progress=false", f"paths.output_dir={tmp_path}"]
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        path = make_proposals(config("make_proposals", *overrides))
    assert np.load(path, allow_pickle=False)["counts"].tolist() == [81] * 4
    assert "81.0 boxes an image, 100.0 % of the true boxes found" in caplog.text


def test_what_is_no_detector_is_refused_by_name(config, tmp_path):
    (tmp_path / "a.ckpt").write_bytes(b"nothing")
    assert not is_detector(tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"a\.ckpt is not a checkpoint that can be read"):
        read_detector(tmp_path / "a.ckpt")
    with pytest.raises(FileNotFoundError, match=r"b\.ckpt does not exist"):
        read_detector(tmp_path / "b.ckpt")


VOC = ["experiment=wsod_voc", *QUIET]


def voc_folders(folder):
    return [f"paths.{name}='{folder}'" for name in ("data_dir", "output_dir", "log_dir", "cache_dir")]


def test_the_voc_experiment_names_a_devkit_that_is_missing(config, tmp_path):
    with pytest.raises(Exception, match=r"VOC2007 of the VOC 2007 devkit does not exist"):
        detect(config("train", *VOC, *voc_folders(tmp_path)))


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
    measures = detect(config("train", *VOC, *voc_folders(tmp_path), *(f"data.scenes.{name}={value}" for name, value in scenes.items())))
    assert measures["test/recall"] > 0.8
    assert measures["train/corloc"] > 0.5
    assert measures["train_told/corloc"] > 0.8
    content = json.loads((tmp_path / "pseudo_labels.json").read_text())
    assert content["info"]["images_dir"] == str(tmp_path / "VOCdevkit" / "VOC2011" / "JPEGImages")
    assert [row["name"] for row in content["categories"]] == ["reading", "running"]


def test_a_folder_by_class_is_detected_in_by_its_configuration(config, tmp_path):
    images = cluttered_digits(per_class=6, digits=[0, 4])
    for i in range(len(images)):
        file = tmp_path / "photos é" / images.classes[int(images.y[i])] / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(images.image(i))).save(file)
    words = [
        "experiment=wsod_digits",
        "data=folder_scenes",
        f"data.scenes.images.path='{tmp_path / 'photos é'}'",
        "detection.bound=false",
    ]
    others = ["method.n_init=1", "method.tol=0.01", f"paths.output_dir='{tmp_path / 'out'}'", f"paths.log_dir='{tmp_path / 'logs'}'"]
    detect(config("train", *words, *QUIET, *others))
    found = json.loads((tmp_path / "out" / "pseudo_labels.json").read_text(encoding="utf-8"))
    train, _ = split_by_class(images.y)
    assert {image["file_name"] for image in found["images"]} == {f"{images.classes[int(images.y[i])]}/{i:02}.png" for i in train.tolist()}
