import numpy as np
import pytest
from PIL import Image

from lvmdc.vision.datasets import ImageSet
from lvmdc.vision.features import HOG, cache_key, cache_path
from lvmdc.vision.features import cache as module
from lvmdc.vision.proposals import WindowGrid

ARRAYS = [np.full((64, 64), i, np.uint8) for i in range(3)]


def images(sources=ARRAYS, **changed):
    return ImageSet(**({"sources": sources, "classes": ["a", "b"], "labels": [0, 1, 0]} | changed))


def test_equal_inputs_have_equal_keys():
    assert cache_key(images(), WindowGrid(), HOG()) == cache_key(images([a.copy() for a in ARRAYS]), WindowGrid(), HOG())


def test_every_setting_image_name_and_order_is_in_the_key():
    keys = {cache_key(images(), WindowGrid(), HOG())}
    grids = [{"size": (16, 16)}, {"stride": 4}, {"scales": (1.0, 2.0)}, {"max_boxes": 3}]
    hogs = [{"size": (48, 64)}, {"cell": 4}, {"block": 1}, {"orientations": 8}, {"colour": False}, {"signed": True}]
    sets = [images(ARRAYS[::-1]), images(names=["x", "y", "z"]), images([*ARRAYS[:2], ARRAYS[2] + 1])]
    keys |= {cache_key(images(), WindowGrid(**change), HOG()) for change in grids}
    keys |= {cache_key(images(), WindowGrid(), HOG(**change)) for change in hogs}
    keys |= {cache_key(other, WindowGrid(), HOG()) for other in sets}
    assert len(keys) == 1 + len(grids) + len(hogs) + len(sets)


def test_the_kind_and_the_format_are_in_the_key(monkeypatch):
    class Other(WindowGrid):
        pass

    key = cache_key(images(), WindowGrid(), HOG())
    assert key != cache_key(images(), Other(), HOG())
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert key != cache_key(images(), WindowGrid(), HOG())


def test_labels_and_true_boxes_are_not_in_the_key():
    boxes = np.array([[0.0, 0, 1, 1]] * 3)
    assert cache_key(images(), WindowGrid(), HOG()) == cache_key(images(labels=[1, 1, 0], boxes=boxes), WindowGrid(), HOG())


def test_a_changed_file_changes_the_key(tmp_path):
    file = tmp_path / "a.png"
    keys = set()
    for array in ARRAYS:
        Image.fromarray(array).save(file)
        keys.add(cache_key(ImageSet([file], ["a"], [0]), WindowGrid(), HOG()))
    assert len(keys) == 3


def test_settings_that_json_cannot_write_are_refused():
    class Odd(WindowGrid):
        def settings(self):
            return {"values": {1, 2}}

    with pytest.raises(TypeError, match=r"settings\(\) must return plain values"):
        cache_key(images(), Odd(), HOG())


def test_a_path_has_the_key_in_its_name(tmp_path):
    assert cache_path(tmp_path, "00ff").parent == tmp_path
    assert "00ff" in cache_path(tmp_path, "00ff").name
