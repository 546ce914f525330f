import logging
import os
from pathlib import Path

import pytest
from devkits import SIZE, write_devkit
from PIL import Image

from lvmdc.vision.datasets import voc_detection


def write(path: Path, images, lists) -> Path:
    """A devkit of year 2007: image → objects as (name, xmin, ymin, xmax, ymax, *flags); list → images."""
    root = path / "VOC2007"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True)
    for name, objects in images.items():
        Image.new("RGB", SIZE).save(root / "JPEGImages" / f"{name}.jpg")
        inside = ""
        for kind, *corners in objects:
            box = "".join(f"<{c}>{v}</{c}>" for c, v in zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=False))
            flags = "".join(f"<{flag}>{int(flag in corners)}</{flag}>" for flag in ("truncated", "difficult"))
            inside += f"<object><name>{kind}</name>{flags}<bndbox>{box}</bndbox></object>"
        size = f"<size><width>{SIZE[0]}</width><height>{SIZE[1]}</height></size>"
        (root / "Annotations" / f"{name}.xml").write_text(f"<annotation>{size}{inside}</annotation>")
    for name, keys in lists.items():
        (root / "ImageSets" / "Main" / f"{name}.txt").write_text("".join(f"{key}\n" for key in keys))
    return path


IMAGES = {
    "000001": [("dog", 1, 2, 20, 30), ("person", 5, 5, 40, 30, "truncated"), ("dog", 21, 1, 30, 9)],
    "000002": [("person", 1, 1, 10, 10, "difficult")],
    "000003": [("cow", 3, 3, 9, 9), ("person", 3, 3, 9, 9, "difficult", "truncated"), ("person", 1, 1, 5, 5)],
    "000004": [],
}
LISTS = {"trainval": ["000001", "000002", "000004"], "test": ["000003"]}


@pytest.fixture
def devkit(tmp_path):
    return write(tmp_path, IMAGES, LISTS)


def test_images_come_in_their_parts_with_all_objects_and_flags(devkit, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        scenes = voc_detection(devkit)
    assert scenes.classes == ["cow", "dog", "person"]
    assert scenes.names == ["000001.jpg", "000002.jpg", "000004.jpg", "000003.jpg"]
    assert scenes.division.tolist() == [0, 0, 0, 1]
    assert scenes.labels.tolist() == [[-1, 1, 1], [-1, -1, 0], [-1, -1, -1], [1, -1, 1]]
    assert scenes.truth.of_image(0).box.tolist() == [[0, 1, 20, 30], [4, 4, 40, 30], [20, 0, 30, 9]]  # VOC counts pixels from 1
    assert scenes.truth.of_image(3).difficult.tolist() == [False, True, False]
    assert "4 images, 7 boxes of 3 classes, 2 of them difficult, 2 truncated" in caplog.text
    assert scenes.image(1).size == SIZE


def test_truncated_objects_may_count_as_difficult_ones(devkit, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        scenes = voc_detection(devkit, truncated="difficult")
    assert scenes.truth.of_image(0).difficult.tolist() == [False, True, False]
    assert scenes.truth.of_image(3).difficult.tolist() == [False, True, False]
    assert scenes.labels[:, 2].tolist() == [0, 0, -1, 1]  # of the first image's person nothing more is known
    assert "7 boxes of 3 classes, 3 of them difficult, 2 truncated" in caplog.text
    with pytest.raises(ValueError, match="truncated must be one of keep, difficult, but it is 'drop'"):
        voc_detection(devkit, truncated="drop")


def test_a_part_or_every_annotation_is_one_set(devkit):
    assert voc_detection(devkit, test=None).names == ["000001.jpg", "000002.jpg", "000004.jpg"]
    everything = voc_detection(devkit, train=None, test=None)
    assert everything.names == [f"00000{i}.jpg" for i in range(1, 5)]
    assert everything.division is None


def test_classes_may_be_chosen(devkit):
    scenes = voc_detection(devkit, classes=["person", "sofa"])
    assert scenes.labels.tolist() == [[1, -1], [0, -1], [-1, -1], [1, -1]]
    with pytest.raises(ValueError, match="the training part has no image that shows 'sofa'"):
        scenes.split()


def test_actions_of_several_people_are_labels(tmp_path):
    write_devkit(tmp_path, {"1": [(1, 1, 8, 8, "reading"), (5, 5, 40, 30, "phoning", "walking")], "2": [(2, 2, 9, 9, "other"), "horse"]})
    scenes = voc_detection(tmp_path, 2011, "trainval", None, label="action", image_set="Action")
    assert scenes.classes == ["phoning", "reading", "walking"]
    assert scenes.labels.tolist() == [[1, 1, 1], [-1, -1, -1]]
    assert scenes.truth.of_label(0).box.tolist() == scenes.truth.of_label(2).box.tolist() == [[4, 4, 40, 30]]


def test_what_is_wrong_is_named(devkit):
    with pytest.raises(FileNotFoundError, match=r"VOC2008 of the VOC 2008 devkit does not exist"):
        voc_detection(devkit, 2008)
    with pytest.raises(FileNotFoundError, match=r"the list .*val\.txt does not exist"):
        voc_detection(devkit, test="val")
    with pytest.raises(ValueError, match="000001 is in both trainval and trainval"):
        voc_detection(devkit, test="trainval")
    with pytest.raises(ValueError, match="test must be None where train is None"):
        voc_detection(devkit, train=None)
    with pytest.raises(ValueError, match="has no object with an action"):
        voc_detection(devkit, label="action")
    annotation = devkit / "VOC2007" / "Annotations" / "000001.xml"
    annotation.write_text(annotation.read_text().replace("<truncated>1<", "<truncated>maybe<"))
    with pytest.raises(ValueError, match=r"000001\.xml: object 2: truncated must be 0 or 1, but it is 'maybe'"):
        voc_detection(devkit)


@pytest.mark.real_data
@pytest.mark.skipif("LVMDC_DATA" not in os.environ, reason="LVMDC_DATA is not set")
def test_the_devkit_of_2011_has_images_of_several_actions():
    path = Path(os.environ["LVMDC_DATA"]) / "VOCdevkit"
    if not (path / "VOC2011").is_dir():
        pytest.skip("no VOC 2011 there")
    scenes = voc_detection(path, 2011, "train", "val", label="action", image_set="Action")
    assert len(scenes) == 2424
    assert len(scenes.classes) == 10
    assert int(((scenes.labels == 1).sum(dim=1) > 1).sum()) > 50
