import json

import numpy as np
import pytest
import torch
from PIL import Image

from lvmdc import LabelledBoxes
from lvmdc.vision.datasets import ImageSet, coco, coco_scenes, digit_scenes
from lvmdc.vision.detection import save_coco


def test_what_is_written_is_read_again_the_same(tmp_path):
    scenes = digit_scenes(n_images=6)
    found = LabelledBoxes(scenes.truth.image, scenes.truth.label, scenes.truth.box, score=torch.linspace(0, 1, len(scenes.truth)))
    path = save_coco(tmp_path / "pseudo.json", scenes, found)
    content = json.loads(path.read_text())
    again = coco_scenes(path, content["info"]["images_dir"])
    shown = [k for k in range(6) if bool((scenes.labels[:, k] == 1).any())]
    assert again.classes == [scenes.classes[k] for k in shown]
    assert torch.equal(again.labels, scenes.labels[:, shown])
    assert torch.equal(again.truth.box, scenes.truth.box)
    assert np.array_equal(np.asarray(again.image(2)), np.asarray(scenes.image(2)))
    assert [a["score"] for a in content["annotations"]] == pytest.approx(found.score.tolist())
    assert len(coco(path, content["info"]["images_dir"])) == sum(len(scenes.shown(i)) == 1 for i in range(6))


def test_images_in_files_stay_where_they_are(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / "photos" / folder).mkdir(parents=True)
        Image.new("RGB", (6, 4)).save(tmp_path / "photos" / folder / "1.png")
    scenes = ImageSet([tmp_path / "photos" / f / "1.png" for f in ("a", "b")], ["cat"], [[1], [-1]])
    content = json.loads(save_coco(tmp_path / "out" / "p.json", scenes, LabelledBoxes([0], [0], [[1, 1, 3, 4]])).read_text())
    assert [row["file_name"] for row in content["images"]] == ["a/1.png", "b/1.png"]
    assert content["info"]["images_dir"] == str((tmp_path / "photos").resolve())
    assert (content["images"][0]["width"], content["images"][0]["height"]) == (6, 4)
    assert not (tmp_path / "out" / "images").exists()
    assert "score" not in content["annotations"][0]


def test_boxes_of_other_images_are_refused(tmp_path):
    scenes = ImageSet([np.zeros((4, 6), np.uint8)], ["cat"], [[1]])
    with pytest.raises(ValueError, match="an image or class beyond them"):
        save_coco(tmp_path / "p.json", scenes, LabelledBoxes([1], [0], [[0, 0, 1, 1]]))
