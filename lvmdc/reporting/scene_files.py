"""The objects of several classes in pictures, on disk: one JSON for programs, one drawing a picture for people.

`predictions.json` is UTF-8 and holds

    {"format": "lvmdc detections", "version": 1, "pictures": [
        {"name": "zoo/1.jpg", "drawing": "drawings/zoo/1.jpg.png",
         "objects": [{"class": "elk", "score": 1.25, "box": [x1, y1, x2, y2]}, …]}, …]}

with pictures in the order in which they came, objects best first (none where nothing was found), boxes in pixels of the picture, and
drawings relative to the JSON.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.reporting.detections import Detection
from lvmdc.reporting.files import SafeNames, write_atomically
from lvmdc.reporting.page import png
from lvmdc.reporting.scene import draw_scene


@dataclass(frozen=True)
class SceneRecord:
    """What is predicted for one picture: its boxes with scores, best first.

    >>> SceneRecord("a.jpg", LabelledBoxes([0], [0], [[0, 0, 4, 4]], score=[1.0]), Image.new("RGB", (8, 8))).name
    'a.jpg'
    """

    name: str
    found: LabelledBoxes
    image: Image.Image


def save_scenes(folder: str | Path, records: Iterable[SceneRecord], classes: Sequence[str], size: int = 512) -> Path:
    """Write `predictions.json` and `drawings/….png` under `folder`; the path of the JSON.

    Records are taken one at a time, so that a generator needs memory for one picture only.

    >>> import tempfile
    >>> elk = SceneRecord("zoo/1.jpg", LabelledBoxes([0], [0], [[0, 0, 4, 4]], score=[1.25]), Image.new("RGB", (8, 8)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     json.loads(save_scenes(folder, [elk], ["elk"]).read_text())["pictures"][0]["objects"]
    [{'class': 'elk', 'score': 1.25, 'box': [0.0, 0.0, 4.0, 4.0]}]
    """
    folder, names, pictures = Path(folder), SafeNames(".png"), []
    for record in records:
        found = record.found
        if found.score is None:
            raise ValueError(f"{record.name}: found must have scores, but found.score is None")
        columns = zip(found.label.tolist(), found.score.tolist(), found.box, strict=True)
        objects = [Detection(classes[k], score, box).as_json() for k, score, box in columns]
        drawing = Path("drawings") / names.path(record.name)
        count = f"{len(objects)} object{'' if len(objects) == 1 else 's'}"
        write_atomically(folder / drawing, png(draw_scene(record.image, found, classes, caption=count, size=size)))
        pictures.append({"name": record.name, "drawing": drawing.as_posix(), "objects": objects})
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in pictures)
    path = folder / "predictions.json"
    text = f'{{"format": "lvmdc detections", "version": 1, "pictures": [\n{lines}\n]}}\n'
    write_atomically(path, text.encode(errors="backslashreplace"))  # file names that are not UTF-8 come back the same
    return path
