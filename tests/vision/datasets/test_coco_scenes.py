import json
import logging

import pytest
import torch
from PIL import Image
from test_coco import write

from lvmdc.vision.datasets import coco_scenes


def test_every_image_has_the_labels_and_boxes_of_all_its_categories(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        scenes = coco_scenes(*write(tmp_path))
    assert scenes.classes == ["dog", "cat"]  # in the order of the file; no bird is annotated
    assert scenes.labels.tolist() == [[-1, 1], [1, 1], [-1, -1], [1, -1]]
    assert scenes.truth.of_image(0).box.tolist() == [[0, 0, 2, 2], [1, 1, 5, 4]]
    assert scenes.truth.of_image(3).difficult.tolist() == [False, True]  # the second is a crowd
    assert scenes.truth.of_image(3).box[0].tolist() == [5, 5, 10, 8]  # cut at the edge
    assert scenes.division is None
    assert "4 images, 6 boxes of 2 categories, 1 of them crowds" in caplog.text


def test_an_image_is_opened_once_however_many_boxes_it_has(tmp_path, monkeypatch):
    places, opened, reading = write(tmp_path), [], Image.open
    monkeypatch.setattr(Image, "open", lambda file, **kinds: opened.append(file) or reading(file, **kinds))
    coco_scenes(*places)
    assert len(opened) == len(set(opened)) == 3  # of the four one has no box


def test_a_category_that_only_a_crowd_shows_is_unknown(tmp_path):
    scenes = coco_scenes(*write(tmp_path, lambda c: c["annotations"][4].update(iscrowd=1)))
    assert scenes.labels[3].tolist() == [0, -1]


def test_a_box_without_an_area_says_what_is_there_and_not_where(tmp_path):
    scenes = coco_scenes(*write(tmp_path, lambda c: c["annotations"][2].update(bbox=[1, 1, 0, 3])))
    assert scenes.labels[1].tolist() == [1, 1]
    assert scenes.truth.of_image(1).label.tolist() == [0]


def test_a_second_file_is_the_test_part(tmp_path):
    (tmp_path / "test").mkdir()
    first = write(tmp_path)
    second = write(tmp_path / "test", lambda c: c["categories"].reverse())
    scenes = coco_scenes(*first, *second)
    assert scenes.division.tolist() == [0] * 4 + [1] * 4
    assert torch.equal(scenes.labels[:4], scenes.labels[4:])  # by name, whatever the order in the file


def _no_images(content):
    content["images"], content["annotations"] = [], []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["annotations"][2].update(image_id=77), "annotation 3 names the image 77"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, 3]), "annotation 3 must have a bbox of four numbers"),
        (lambda c: c["annotations"][4].update(bbox=[1, 1, 20, 2]), r"4\.png: the box .* must lie inside the image"),
        (lambda c: c.update(annotations=[]), "has no annotation, so that there is nothing to learn"),
        (_no_images, "must have images in its list 'images'"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        coco_scenes(*write(tmp_path, change))


def test_missing_files_are_named(tmp_path):
    file, directory = write(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none does not exist"):
        coco_scenes(file, tmp_path / "none")
    content = json.loads(file.read_text())
    content["images"][0]["file_name"] = "gone.png"
    file.write_text(json.dumps(content))
    with pytest.raises(FileNotFoundError, match=r"gone\.png, which does not exist \(1 of 4"):
        coco_scenes(file, directory)
