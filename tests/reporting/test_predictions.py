"""predictions.json and its drawings."""

import json

import pytest
import torch
from PIL import Image

from lvmdc import LabelledBoxes
from lvmdc.reporting import Detection, Prediction, save_predictions
from lvmdc.reporting.predictions import SceneRecord, save_scenes


def prediction(name, image=True, **changes):
    best = Detection("elk & <deer>", 1.25, torch.tensor([1.5, 2.0, 20.25, 30.0]))
    return Prediction(name, best, image=Image.new("RGB", (40, 40)) if image else None, **changes)


def read(folder):
    return json.loads((folder / "predictions.json").read_text(encoding="utf-8"))


def test_the_json_holds_what_was_predicted(tmp_path):
    others = [Detection("bison", torch.tensor(0.5), [0, 0, 8, 8]), Detection("llama", 0.25, None)]
    path = save_predictions(tmp_path, [prediction("elk/1.jpg", alternatives=others), prediction("鹿.jpg", image=False)])
    assert path == tmp_path / "predictions.json"
    assert read(tmp_path) == {
        "format": "lvmdc predictions",
        "version": 2,
        "images": [
            {
                "name": "elk/1.jpg",
                "class": "elk & <deer>",
                "score": 1.25,
                "box": [1.5, 2.0, 20.25, 30.0],
                "drawing": "images/elk/1.png",
                "alternatives": [
                    {"class": "bison", "score": 0.5, "box": [0.0, 0.0, 8.0, 8.0]},
                    {"class": "llama", "score": 0.25, "box": None},
                ],
            },
            {
                "name": "鹿.jpg",
                "class": "elk & <deer>",
                "score": 1.25,
                "box": [1.5, 2.0, 20.25, 30.0],
                "drawing": None,
                "alternatives": [],
            },
        ],
    }
    assert "鹿" in path.read_text(encoding="utf-8")  # to be read by people too


def test_every_name_comes_back_and_has_its_drawing_inside_the_folder(tmp_path):
    names = ["a.jpg", "a.jpg", "A.JPG", "a.png", "été/b c.jpg", "été/b c.jpg", "../../out.jpg", "/abs/x.jpg", "", "..", "a.jpg.png/z.jpg"]
    names += [
        'q"<>|?*:\\.jpg',
        "nul.txt",
        "x" * 400,
        "x" * 401,
        "鹿" * 200,
        "line\nbreak",
        "bad\udc80byte.jpg",
        "drawings",
        "dots...",
        "e\u0301",
    ]
    names += ["\u00e9", "predictions.json", "predictions.json/a"]
    folder = tmp_path / "out"
    save_predictions(folder, [prediction(name) for name in names], size=32)
    entries = read(folder)["images"]
    assert [entry["name"] for entry in entries] == names
    drawings = [folder / entry["drawing"] for entry in entries]
    assert len({str(d).casefold() for d in drawings}) == len(names)
    for drawing in drawings:
        assert drawing.resolve().is_relative_to(folder.resolve() / "images")
        assert Image.open(drawing).width == 32
    assert {p.name for p in tmp_path.iterdir()} == {"out"}
    assert (folder / "images" / "été" / "b c.png").is_file()
    assert len(list(folder.rglob("*.png"))) == len(names)
    assert not list(folder.rglob("*.tmp"))


def test_the_same_input_gives_the_same_names(tmp_path):
    for folder in ("one", "two"):
        save_predictions(tmp_path / folder, [prediction("a"), prediction("a"), prediction("b/a")])
    assert read(tmp_path / "one") == read(tmp_path / "two")


def test_records_are_drawn_one_at_a_time(tmp_path):
    def records():
        yield prediction("a.jpg")
        assert (tmp_path / "images" / "a.png").is_file()
        yield prediction("b.jpg")

    save_predictions(tmp_path, records())
    assert len(read(tmp_path)["images"]) == 2


def test_posterior_and_truth_are_drawn(tmp_path):
    more = {"boxes": [[0, 0, 30, 30]], "posterior": [1.0], "truth": [2, 2, 30, 30], "correct": False}
    save_predictions(tmp_path, [prediction("plain"), prediction("full", **more)])
    plain, full = (Image.open(tmp_path / "images" / f"{name}.png") for name in ("plain", "full"))
    assert plain.size == full.size
    assert plain.tobytes() != full.tobytes()


def test_a_failure_names_the_image_and_leaves_the_old_json(tmp_path):
    save_predictions(tmp_path, [prediction("old.jpg")])
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"new\.jpg: score must be finite, but it is (nan|inf)"):
            save_predictions(tmp_path, [Prediction("new.jpg", Detection("elk", bad, None))])
    with pytest.raises(ValueError, match=r"new\.jpg: box must hold four finite numbers"):
        save_predictions(tmp_path, [Prediction("new.jpg", Detection("elk", 1.0, [1, 2, 3]))])
    assert [entry["name"] for entry in read(tmp_path)["images"]] == ["old.jpg"]


def test_no_records_give_an_empty_list(tmp_path):
    save_predictions(tmp_path / "new", [])
    assert read(tmp_path / "new")["images"] == []


def test_objects_of_a_scene_are_written_with_a_drawing_per_image(tmp_path):
    image = Image.new("RGB", (64, 64), (40, 40, 40))
    found = LabelledBoxes([0, 0], [0, 1], [[4, 20, 24, 40], [34, 20, 60, 60]], score=[1.5, 0.5])
    nothing = SceneRecord("b.png", found[found.label > 1], image)
    path = save_scenes(tmp_path, [SceneRecord("zoo/a.png", found, image), nothing], ["cat", "dog"])
    content = json.loads(path.read_text())
    assert (content["format"], content["version"]) == ("lvmdc detections", 2)
    first, second = content["images"]
    assert first["objects"][1] == {"class": "dog", "score": 0.5, "box": [34.0, 20.0, 60.0, 60.0]}
    assert second["objects"] == []
    assert all((tmp_path / entry["drawing"]).is_file() for entry in (first, second))
    with pytest.raises(ValueError, match=r"a\.png: found must have scores"):
        save_scenes(tmp_path, [SceneRecord("a.png", LabelledBoxes([0], [0], [[0, 0, 1, 1]]), image)], ["cat"])
