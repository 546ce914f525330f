import json
import logging

import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import coco


def write(path, change=None):
    """Four images of 10 by 8 pixels: 1 shows two cats, 2 a dog and a cat, 3 nothing, 4 a dog."""
    (path / "images").mkdir(exist_ok=True)
    for i in range(1, 5):
        Image.new("RGB", (10, 8)).save(path / "images" / f"{i}.png")
    content = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 10, "height": 8} for i in range(1, 5)],
        "categories": [{"id": 9, "name": "dog"}, {"id": 5, "name": "cat"}, {"id": 7, "name": "bird"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 2, 2]},
            {"id": 2, "image_id": 1, "category_id": 5, "bbox": [1, 1, 4, 3]},
            {"id": 3, "image_id": 2, "category_id": 5, "bbox": [0, 0, 2, 2]},
            {"id": 4, "image_id": 2, "category_id": 9, "bbox": [0, 0, 2, 2]},
            {"id": 5, "image_id": 4, "category_id": 9, "bbox": [5, 5, 5.5, 3.5]},
            {"id": 6, "image_id": 4, "category_id": 9, "bbox": [0, 0, 10, 8], "iscrowd": 1},
        ],
    }
    if change is not None:
        change(content)
    (path / "a.json").write_text(json.dumps(content))
    return path / "a.json", path / "images"


def test_images_of_one_category_are_taken_with_its_largest_box(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        images = coco(*write(tmp_path))
    assert images.names == ["1.png", "4.png"]
    assert images.classes == ["dog", "cat"]  # in the order of the file; no bird is left
    assert images.y.tolist() == [1, 0]
    assert torch.equal(images.boxes, torch.tensor([[1.0, 1, 5, 4], [5, 5, 10, 8]]))  # the second is cut at the edge
    assert "2 of 4 images are left out" in caplog.text
    assert images.image(0).size == (10, 8)


def test_images_lie_beside_the_file_by_default(tmp_path):
    file, directory = write(tmp_path)
    beside = file.rename(directory / "a.json")
    assert len(coco(beside)) == 2


def test_an_image_whose_boxes_have_no_area_is_left_out(tmp_path):
    assert coco(*write(tmp_path, lambda c: c["annotations"][4].update(bbox=[1, 1, 0, 3]))).names == ["1.png"]


def _rename(content):
    content["images"][0]["file_name"] = "gone.png"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("images"), r"a\.json must have a list 'images'"),
        (lambda c: c.update(annotations=[3]), "must have a list 'annotations' of objects"),
        (lambda c: c["images"][1].pop("file_name"), r"images\[1\] must have a proper 'file_name', but it is None"),
        (lambda c: c["categories"][0].pop("id"), r"categories\[0\] must have a proper 'id'"),
        (lambda c: c["annotations"][2].update(image_id=77), "annotation 3 names the image 77"),
        (lambda c: c["annotations"][2].update(category_id=77), "annotation 3 names the category 77"),
        (lambda c: c["annotations"][2].update(image_id=[1]), r"annotation 3 names the image \[1\]"),
        (lambda c: c["images"][2].update(id=1), "images must have ids that differ"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, 3]), "annotation 3 must have a bbox of four numbers"),
        (lambda c: c["annotations"][2].pop("bbox"), "annotation 3 must have a bbox of four numbers"),
        (lambda c: c["annotations"][4].update(bbox=[1, 1, 20, 2]), r"4\.png: the box .* must lie inside the image, which is 10 by 8"),
        (lambda c: c["annotations"][4].update(bbox=[-1, 1, 0.5, 2]), "outside its edge"),
        (
            lambda c: c["images"][0].update(width=8, height=10),
            r"1\.png is 10 by 8 pixels, but its annotations are for an image of 8 by 10",
        ),
        (lambda c: c.update(annotations=[]), "has no image whose annotations are all of one category"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        coco(*write(tmp_path, change))


def test_bad_json_is_refused_with_its_line(tmp_path):
    file, directory = write(tmp_path)
    file.write_text('{"images": [],\n oops}')
    with pytest.raises(ValueError, match=r"a\.json, line 2: not valid JSON"):
        coco(file, directory)


def test_missing_files_are_named(tmp_path):
    file, directory = write(tmp_path, _rename)
    with pytest.raises(FileNotFoundError, match=r"gone\.png, which does not exist \(1 of 2 images are missing\)"):
        coco(file, directory)
    with pytest.raises(FileNotFoundError, match=r"b\.json does not exist"):
        coco(tmp_path / "b.json")
    with pytest.raises(FileNotFoundError, match=r"the folder of images .*none does not exist"):
        coco(file, tmp_path / "none")
