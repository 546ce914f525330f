import json

import numpy as np
import pytest
from PIL import Image

from lvmdc import LabelledBoxes
from lvmdc.reporting import contact_sheet, draw_scene
from lvmdc.reporting.drawing import PREDICTED, TRUTH
from lvmdc.reporting.predictions import SceneRecord, save_scenes

IMAGE = Image.new("RGB", (64, 64), (40, 40, 40))
FOUND = LabelledBoxes([0, 0], [0, 1], [[4, 20, 24, 40], [34, 20, 60, 60]], score=[1.5, 0.5])


def count(image, colour):
    return int((np.asarray(image) == colour).all(axis=-1).sum())


def test_predicted_and_true_boxes_are_drawn_where_they_are():
    drawn = draw_scene(IMAGE, FOUND, ["cat", "dog"], LabelledBoxes([0], [0], [[4, 2, 24, 12]]), size=256)
    assert drawn.getpixel((16, 120)) == PREDICTED  # the left side of the first
    assert drawn.getpixel((136, 200)) == PREDICTED  # the left side of the second
    assert count(drawn, TRUTH) > 50
    assert count(draw_scene(IMAGE, FOUND, ["cat", "dog"]), TRUTH) == 0


def test_a_box_has_its_class_and_score_above_it_or_inside_at_the_edge():
    one = LabelledBoxes([0], [0], [[4, 30, 24, 60]], score=[1.5])
    bare = LabelledBoxes([0], [0], [[4, 30, 24, 60]])
    assert count(draw_scene(IMAGE, one, ["cat"]), PREDICTED) > count(draw_scene(IMAGE, bare, ["cat"]), PREDICTED)
    tagged = np.asarray(draw_scene(IMAGE, one, ["cat"]))[:118]  # above the box
    assert (tagged == PREDICTED).all(axis=-1).any()
    edge = LabelledBoxes([0], [0], [[0, 0, 64, 64]], score=[-12.25])
    assert draw_scene(IMAGE, edge, ["a class with a long name"]).size == (256, 256)


def test_nothing_found_is_the_image_and_a_caption_goes_below():
    nothing = FOUND[FOUND.label > 1]
    assert count(draw_scene(IMAGE, nothing, ["cat", "dog"]), PREDICTED) == 0
    assert draw_scene(IMAGE, nothing, ["cat", "dog"], caption="0 objects").height > 256
    with pytest.raises(ValueError, match="size must be at least 16"):
        draw_scene(IMAGE, nothing, ["cat"], size=4)


def test_a_legend_may_have_some_meanings_alone():
    whole, part = (contact_sheet([Image.new("RGB", (80, 80))], 1, meanings=m) for m in (None, ("truth", "predicted")))
    assert part.height < whole.height


def test_records_are_written_with_drawings(tmp_path):
    nothing = SceneRecord("b.png", FOUND[FOUND.label > 1], IMAGE)
    path = save_scenes(tmp_path, [SceneRecord("zoo/a.png", FOUND, IMAGE), nothing], ["cat", "dog"])
    content = json.loads(path.read_text())
    assert content["format"] == "lvmdc detections"
    first, second = content["images"]
    assert first["objects"][1] == {"class": "dog", "score": 0.5, "box": [34.0, 20.0, 60.0, 60.0]}
    assert second["objects"] == []
    assert all((tmp_path / entry["drawing"]).is_file() for entry in (first, second))
    with pytest.raises(ValueError, match=r"a\.png: found must have scores"):
        save_scenes(tmp_path, [SceneRecord("a.png", LabelledBoxes([0], [0], [[0, 0, 1, 1]]), IMAGE)], ["cat"])
