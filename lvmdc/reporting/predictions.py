"""Predictions on disk: one JSON for programs, one drawing per image for people.

`predictions.json` is UTF-8. For images of one object it holds

    {"format": "lvmdc predictions", "version": 2, "images": [
        {"name": "elk/1.jpg", "class": "elk", "score": 1.25, "box": [x1, y1, x2, y2], "drawing": "images/elk/1.png",
         "alternatives": [{"class": "deer", "score": 1.1, "box": [x1, y1, x2, y2], "from_prior": true}, …]}, …]}

and for images with objects of several classes

    {"format": "lvmdc detections", "version": 2, "images": [
        {"name": "zoo/1.jpg", "drawing": "images/zoo/1.png",
         "objects": [{"class": "elk", "score": 1.25, "box": [x1, y1, x2, y2]}, …]}, …]}

with images in the order in which they came, boxes in pixels of the image (null where candidates have none), alternatives and objects best
first, and drawings relative to the JSON (null where no image was given). `from_prior` is there where the prior added the box to the
candidates, such as a box in the middle of the image, so that no proposal of the image has led to it.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.boxes import LabelledBoxes
from lvmdc.reporting.drawing import draw_detection, draw_scene, png
from lvmdc.storage.files import SUFFIXES, SafeNames, write_atomically


@dataclass(frozen=True)
class Detection:
    """A class and a box, and their score w·Ψ(x,y,h).

    >>> Detection("elk", 1.25, [0, 0, 4, 4]).as_json()
    {'class': 'elk', 'score': 1.25, 'box': [0.0, 0.0, 4.0, 4.0]}
    """

    class_name: str
    score: float
    box: ArrayLike | None
    from_prior: bool = False  # whether the prior added the box

    def as_json(self) -> dict[str, object]:
        """Plain data; boxes to a thousandth of a pixel."""
        box = None if self.box is None else [round(v, 3) for v in as_tensor(self.box).double().tolist()]
        score = float(self.score)
        if not math.isfinite(score):
            raise ValueError(f"score must be finite, but it is {score}")
        if box is not None and (len(box) != 4 or not all(map(math.isfinite, box))):
            raise ValueError(f"box must hold four finite numbers x1, y1, x2, y2, but it is {box}")
        return {"class": self.class_name, "score": score, "box": box} | ({"from_prior": True} if self.from_prior else {})


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one image.

    Args:
        name: what the image is called, with its sub-folder.
        best: the prediction.
        alternatives: the next best, best first.
        image: the image; without it nothing is drawn.
        boxes: (m, 4) the candidates, for the drawing.
        posterior: (m,) P_θ(h|x,y) over them, for the drawing.
        truth: (4,) the true box where it is known, for the drawing.
        correct: whether the class is right, where that is known, for the drawing.

    >>> Prediction("elk/1.jpg", Detection("elk", 1.25, [0, 0, 4, 4])).best.class_name
    'elk'
    """

    name: str
    best: Detection
    alternatives: Sequence[Detection] = ()
    image: Image.Image | None = None
    boxes: ArrayLike | None = None
    posterior: ArrayLike | None = None
    truth: ArrayLike | None = None
    correct: bool | None = None


def save_predictions(folder: str | Path, records: Iterable[Prediction], size: int = 512) -> Path:
    """Write `predictions.json` and `images/….png` under `folder`; the path of the JSON.

    Records are drawn one at a time, so that a generator needs memory for one image only. The JSON is replaced in one step when all
    drawings are there.

    >>> import tempfile
    >>> elk = Prediction("élans/1.jpg", Detection("elk", 1.25, [0, 0, 4, 4]), image=Image.new("RGB", (8, 8)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_predictions(folder, [elk])
    ...     sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*.*"))
    ['images/élans/1.png', 'predictions.json']
    """
    folder, names, images = Path(folder), SafeNames(".png", SUFFIXES), []
    for record in records:
        try:
            entry = {"name": record.name, **record.best.as_json(), "drawing": None}
            if record.image is not None:
                entry["drawing"] = (Path("images") / names.path(record.name)).as_posix()
                write_atomically(folder / str(entry["drawing"]), png(_drawn(record, record.image, size)))
            entry["alternatives"] = [other.as_json() for other in record.alternatives]
        except ValueError as error:
            raise ValueError(f"{record.name}: {error}") from None
        images.append(entry)
    return _write_json(folder, "lvmdc predictions", images)


def _drawn(record: Prediction, image: Image.Image, size: int) -> Image.Image:
    caption = f"{record.best.class_name}  {record.best.score:.3g}"
    return draw_detection(image, record.best.box, record.truth, record.boxes, record.posterior, caption, size, record.correct)


@dataclass(frozen=True)
class SceneRecord:
    """What is predicted for one image: its boxes with scores, best first, and which of them the prior added; none by default.

    >>> SceneRecord("a.jpg", LabelledBoxes([0], [0], [[0, 0, 4, 4]], score=[1.0]), Image.new("RGB", (8, 8))).name
    'a.jpg'
    """

    name: str
    found: LabelledBoxes
    image: Image.Image
    from_prior: Sequence[bool] = ()


def save_scenes(folder: str | Path, records: Iterable[SceneRecord], classes: Sequence[str], size: int = 512) -> Path:
    """Write `predictions.json` and `images/….png` under `folder`; the path of the JSON.

    Records are drawn one at a time, so that a generator needs memory for one image only.

    >>> import tempfile
    >>> elk = SceneRecord("zoo/1.jpg", LabelledBoxes([0], [0], [[0, 0, 4, 4]], score=[1.25]), Image.new("RGB", (8, 8)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     json.loads(save_scenes(folder, [elk], ["elk"]).read_text())["images"][0]["objects"]
    [{'class': 'elk', 'score': 1.25, 'box': [0.0, 0.0, 4.0, 4.0]}]
    """
    folder, names, images = Path(folder), SafeNames(".png", SUFFIXES), []
    for record in records:
        found = record.found
        if found.score is None:
            raise ValueError(f"{record.name}: found must have scores, but found.score is None")
        own = record.from_prior or [False] * len(found)
        columns = zip(found.label.tolist(), found.score.tolist(), found.box, own, strict=True)
        objects = [Detection(classes[k], score, box, added).as_json() for k, score, box, added in columns]
        drawing = Path("images") / names.path(record.name)
        count = f"{len(objects)} object{'' if len(objects) == 1 else 's'}"
        write_atomically(folder / drawing, png(draw_scene(record.image, found, classes, caption=count, size=size)))
        images.append({"name": record.name, "drawing": drawing.as_posix(), "objects": objects})
    return _write_json(folder, "lvmdc detections", images)


def _write_json(folder: Path, kind: str, images: Sequence[Mapping[str, object]]) -> Path:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in images)
    text = f'{{"format": "{kind}", "version": 2, "images": [\n{lines}\n]}}\n'
    # A file name that is not UTF-8 comes as lone surrogates; written \\udcxx, they are valid JSON and come back the same.
    write_atomically(folder / "predictions.json", text.encode(errors="backslashreplace"))
    return folder / "predictions.json"
