import logging
import os
from pathlib import Path

import pytest
from devkits import IMAGES, annotation, write_devkit

from lvmdc.vision.datasets import voc_action
from lvmdc.vision.datasets.voc import ACTIONS


def test_images_whose_largest_person_shows_one_action_are_kept(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        images = voc_action(write_devkit(tmp_path, IMAGES))
    assert images.names == ["2011_000001.jpg", "2011_000002.jpg", "2011_000006.jpg"]
    assert [images.classes[k] for k in images.y] == ["running", "phoning", "running"]
    assert images.classes == list(ACTIONS)
    assert "3 of 6 images; the largest person shows several actions in 1, none of the 10 in 2" in caplog.text


def test_a_box_counts_pixels_from_zero_and_its_last_one_is_inside(tmp_path):
    images = voc_action(write_devkit(tmp_path, IMAGES))
    assert images.boxes.tolist() == [[0, 1, 20, 30], [4, 4, 40, 30], [2, 2, 21, 22]]
    assert [len(people) for people in images.objects] == [1, 2, 1]


def test_a_box_may_reach_over_the_edge_by_the_rounding_of_a_pixel(tmp_path):
    images = voc_action(write_devkit(tmp_path, {"a": [(0, 0.4, 41, 30.5, "reading")]}))
    assert images.boxes.tolist() == [[0, 0, 40, 30]]


@pytest.mark.parametrize("year", [2010, 2011, 2012])
def test_without_actions_in_the_annotations_the_lists_tell_them_by_the_number_of_the_object(tmp_path, year):
    annotated = voc_action(write_devkit(tmp_path / "xml", IMAGES, year), year)
    listed = voc_action(write_devkit(tmp_path / "lists", IMAGES, year, with_actions=False), year)
    assert listed.names == annotated.names
    assert listed.y.tolist() == annotated.y.tolist()
    assert listed.boxes.tolist() == annotated.boxes.tolist()


def test_the_first_year_had_nine_actions(tmp_path):
    images = {"a": [(1, 1, 9, 9, "running")], "b": [(1, 1, 9, 9, "jumping")]}
    found = voc_action(write_devkit(tmp_path, images, 2010), 2010)
    assert found.classes == list(ACTIONS[1:])
    assert found.names == ["a.jpg"]


def test_a_list_of_people_names_each_image_once(tmp_path):
    write_devkit(tmp_path, IMAGES)
    listed = tmp_path / "VOC2011" / "ImageSets" / "Action" / "val.txt"
    listed.write_text("2011_000002 1\n2011_000002 2\n\n2011_000006 2\n")
    assert voc_action(tmp_path, split="val").names == ["2011_000002.jpg", "2011_000006.jpg"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<annotation>\n<object></annotation>", r"2011_000001\.xml, line 2: not valid XML: mismatched tag"),
        ("", r"2011_000001\.xml, line 1: not valid XML: no element found"),
        (annotation([(1, 1, 9, 9, "running")], size=(400, 300)), "is for an image of 400 by 300 pixels, but the image is 40 by 30"),
        (annotation([(1, 1, 9, "wide", "running")]), "object 1: ymax of its bndbox must be a number, but it is 'wide'"),
        (annotation([(1, 1, 9, "nan", "running")]), "ymax of its bndbox must be a number, but it is 'nan'"),
        ("<annotation><object><name>person</name></object></annotation>", "object 1: xmin of its bndbox must be a number, but it is None"),
        ("<annotation><object></object></annotation>", "object 1 must have a name, but it has none"),
        (
            annotation(["cat", (1, 1, 60, 20, "running")]),
            "object 2: its box 1, 1, 60, 20 must lie inside the image, which is 40 by 30 pixels",
        ),
        (annotation([(9, 9, 3, 20, "running")]), "object 1: its box 9, 9, 3, 20 must lie inside the image"),
    ],
)
def test_a_bad_annotation_is_refused_by_name(tmp_path, content, message):
    write_devkit(tmp_path, IMAGES)
    (tmp_path / "VOC2011" / "Annotations" / "2011_000001.xml").write_text(content)
    with pytest.raises(ValueError, match=message):
        voc_action(tmp_path)


def test_missing_parts_are_refused_by_name(tmp_path):
    write_devkit(tmp_path, IMAGES)
    root = tmp_path / "VOC2011"
    with pytest.raises(FileNotFoundError, match=r"VOC2012 of the VOC 2012 devkit does not exist; `lvmdc prepare voc_action`"):
        voc_action(tmp_path, 2012)
    (root / "JPEGImages" / "2011_000004.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"2011_000004\.jpg, which does not exist \(1 of 6 files are missing"):
        voc_action(tmp_path)
    (root / "ImageSets" / "Action" / "val.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"the list .*val\.txt does not exist"):
        voc_action(tmp_path, split="val")
    (root / "ImageSets" / "Action" / "train.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"train\.txt must name the images of the split, but it is empty"):
        voc_action(tmp_path, split="train")
    (root / "ImageSets" / "Action" / "train.txt").write_text("../../secret\n")
    with pytest.raises(ValueError, match=r"must name images without their folder, but it has '\.\./\.\./secret'"):
        voc_action(tmp_path, split="train")
    (root / "ImageSets" / "Action" / "train.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"train\.txt must be text in UTF-8, but byte 0 is not"):
        voc_action(tmp_path, split="train")


def test_a_bad_line_in_a_list_of_an_action_is_refused(tmp_path):
    write_devkit(tmp_path, IMAGES, with_actions=False)
    (tmp_path / "VOC2011" / "ImageSets" / "Action" / "running_trainval.txt").write_text("2011_000001 1 1\n2011_000002 1\n")
    with pytest.raises(ValueError, match=r"running_trainval\.txt, line 2: must be image, number .* but it is '2011_000002 1'"):
        voc_action(tmp_path)


def test_years_and_splits_without_labels_are_refused(tmp_path):
    with pytest.raises(ValueError, match="year must be one of 2010, 2011, 2012, which have an action task, but it is 2007"):
        voc_action(tmp_path, 2007)
    with pytest.raises(ValueError, match="split must be one of train, val, trainval, but it is 'test'"):
        voc_action(tmp_path, split="test")
    write_devkit(tmp_path, {"a": ["dog"]})
    with pytest.raises(ValueError, match="no image in trainval whose largest person shows exactly one action"):
        voc_action(tmp_path)


DATA = Path(os.environ.get("LVMDC_DATA", "data")) / "VOCdevkit"


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ or not DATA.is_dir(), reason="LVMDC_DATA holds no VOCdevkit")
def test_the_real_images_are_those_of_the_experiment():
    images = voc_action(DATA)
    assert len(images) == 2016
    assert images.y.bincount().min() >= 160
    assert all((box == people).all(dim=1).any() for box, people in zip(images.boxes, images.objects, strict=True))
