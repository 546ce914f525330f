"""Damaged files for every reader: each must be refused in one sentence with the file's name, or read.

`python tests/fuzz.py 5000` runs 5,000 cases for every reader, `python tests/fuzz.py 5000 checkpoint` for those whose name begins so.
It prints how many were refused and accepted, and ends with code 1 if one raised anything else, or if a file with a checksum was accepted
though its bytes had changed. `tests/test_fuzz.py` runs fifty cases each. Case k of a reader is the same in every run.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import random
import re
import resource
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from lvmdc import DISC, Candidates, OverlapLoss
from lvmdc.cli.table import collect
from lvmdc.lightning.checkpoint import DETECTOR_KEY, read_checkpoint, write_content
from lvmdc.reproduction import Division
from lvmdc.reproduction.protocol import Run
from lvmdc.reproduction.runner import Store
from lvmdc.samples import published_split
from lvmdc.sequences import motif
from lvmdc.storage.files import read_json
from lvmdc.vision.datasets import coco, coco_scenes, folder, voc_action, voc_detection
from lvmdc.vision.datasets.archive import open_source
from lvmdc.vision.detection import Detector
from lvmdc.vision.features import FileFeatures
from lvmdc.vision.features.backbone import load_backbone
from lvmdc.vision.features.cache import cached
from lvmdc.vision.features.networks import SmallCNN
from lvmdc.vision.proposals import FileProposals, Proposals

WORDS = [
    "",
    "nan",
    "-1",
    "0",
    "1e400",
    "-1e400",
    "99999999999999999999999",
    "1e308",
    "0.5",
    "x",
    "../../a",
    "\\",
    "\0",
    "é",
    "/etc/passwd",
    "true",
]
ROOM = 2 << 30  # bytes of memory that reading may take beyond what the program holds
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**62,
    1e300,
    math.inf,
    math.nan,
    "",
    "x",
    "../a.png",
    "${x}",
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    "y" * 300,
]


# ---- mutations ---------------------------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three places truncated, flipped, deleted, inserted or overwritten."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at, length = rng.randrange(len(changed) + 1), rng.choice([1, 1, 2, 4, 8, 40])
        kind = rng.choice(["truncate", "flip", "flip", "delete", "insert", "overwrite", "zero", "repeat"])
        if kind == "truncate":
            del changed[at:]
        elif kind == "flip" and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == "delete":
            del changed[at : at + length]
        elif kind == "insert":
            changed[at:at] = rng.randbytes(length)
        elif kind == "overwrite":
            changed[at : at + length] = rng.choice([b"\xff" * length, rng.randbytes(length), (2**31 - 1).to_bytes(4, "little")])
        elif kind == "zero":
            changed[at : at + length] = b"\0" * length
        elif kind == "repeat":
            changed[at:at] = changed[at : at + length]
    return bytes(changed)


def altered(value: Any, rng: random.Random) -> Any:
    """Plain data in which one entry is missing, of another type, or huge."""
    places = list(_places(value))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.25 and isinstance(holder, dict):
        del holder[key]
    elif kind < 0.3:
        deep: Any = 1
        for _ in range(rng.choice([40, 2000])):
            deep = [deep]
        holder[key] = deep
    elif isinstance(holder[key], torch.Tensor) and kind < 0.8:
        tensor = holder[key]
        changes = [
            lambda: tensor.flatten()[:-1],
            lambda: tensor * math.nan,
            lambda: tensor.half(),
            lambda: tensor[None],
            lambda: tensor.long(),
        ]
        changes += [lambda: torch.zeros(()), lambda: torch.zeros(1).expand(1 << 40), lambda: tensor.float().fill_(1e30)]
        holder[key] = rng.choice(changes)()
    elif isinstance(holder, dict) and kind < 0.85:
        holder[rng.choice(["", "_target_", "x", "_args_"])] = holder.pop(key)
    else:
        holder[key] = rng.choice(VALUES)
    return value


def _places(value: Any) -> Any:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _places(value[key])


def reworded(data: bytes, rng: random.Random) -> bytes:
    """Text in which a number or word was replaced, or a line left out, repeated or moved."""
    text = data.decode("utf-8", "replace")
    kind = rng.random()
    if kind < 0.6:
        tokens = list(re.finditer(r"-?\d+(\.\d+)?|\w+", text))
        if tokens:
            token = rng.choice(tokens)
            text = text[: token.start()] + rng.choice(WORDS) + text[token.end() :]
    elif kind < 0.95:
        lines = re.split(r"(?<=[\n>,])", text)
        at = rng.randrange(len(lines))
        lines[at : at + 1] = rng.choice([[], [lines[at]] * 2, [lines[at], rng.choice(lines)]])
        text = "".join(lines)
    else:
        text = text.replace(rng.choice("{[<:,-\n"), rng.choice(["", "[" * 5000, "{", "&a", "*a", "<!DOCTYPE a>"]), 1)
    return text.encode("utf-8", "replace")


def as_json(data: bytes, rng: random.Random) -> bytes:
    return json.dumps(altered(json.loads(data), rng)).replace("Infinity", rng.choice(["Infinity", "1e400"])).encode()


def as_arrays(data: bytes, rng: random.Random) -> bytes:
    """An npz with one array missing, of another type or shape, or with huge numbers."""
    with np.load(BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    numeric = array.dtype.kind in "iuf"
    whole, real = array.dtype.kind in "iu", array.dtype.kind == "f"
    changes: list[Callable[[], np.ndarray]] = [
        lambda: array[:-1],
        lambda: array[:0],
        lambda: array[None],
        lambda: array[::-1],
        lambda: array.reshape(-1),
        lambda: np.concatenate([array, array]),
        lambda: np.array(1),
        lambda: np.array([{}], dtype=object),
        lambda: np.zeros(array.shape, dtype=[("a", "f4")]),
        lambda: array.astype(str),
        lambda: array.astype("S") if array.size else array,
        lambda: array.astype(complex) if numeric else array,
        lambda: array.astype(np.longdouble) if numeric else array,
        lambda: array.astype(">f8") if numeric else array,
        lambda: array.astype(np.uint64) if whole else array,
        lambda: -array if numeric else array,
        lambda: np.full_like(array, np.iinfo(array.dtype).max if whole else np.nan) if numeric else array,
        lambda: (array.astype(float) * 1e300).astype(array.dtype) if real else array,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays[name] = rng.choice(changes)()
    if rng.random() < 0.15:
        del arrays[name]
    out = BytesIO()
    rng.choice([np.savez, np.savez, np.savez_compressed])(out, **arrays)
    return out.getvalue()


def zipped(change: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    return lambda data, rng: gzip.compress(change(gzip.decompress(data), rng), 1)


# ---- readers -----------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """A valid file, what reads it, and how its content can be wrong beside its bytes."""

    name: str
    file: Path
    read: Callable[[], Any]
    rewrite: Callable[[bytes, random.Random], bytes] | None = None
    checksum: bool = False  # whether every change of a byte must be noticed
    same: bool = False  # whether what is read must be the same, if it is read at all
    whole: bytes = field(init=False)
    valid: Any = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.file.read_bytes()
        self.valid = self.read()


def readers(root: Path) -> list[Reader]:
    """Small valid files of every kind below `root`, and their readers."""
    made: list[Reader] = []
    for make in (_checkpoints, _candidates, _arrays, _coco, _voc, _folder, _sequences, _results, _others):
        made += make(root / make.__name__)
    return made


def _learner(folder: Path) -> tuple[DISC, Candidates]:
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 2, generator=generator)
    boxes = torch.cat([x, x + 1], dim=1)
    candidates = Candidates(torch.randn(8, 3, generator=generator), [2] * 4, boxes.repeat(2, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = DISC(loss=OverlapLoss(), C=1.0, max_iter=1).fit(candidates, [0, 1, 0, 1])
    return learner, candidates


def _checkpoints(folder: Path) -> list[Reader]:
    learner, candidates = _learner(folder)
    method = {"_target_": "lvmdc.DISC", "C": 1.0, "loss": {"_target_": "lvmdc.OverlapLoss"}}
    parts = {"proposals": {"_target_": "lvmdc.vision.proposals.WindowGrid"}, "features": {"_target_": "lvmdc.vision.features.HOG"}}
    data = {"_target_": "lvmdc.sequences.planted_motifs", "per_class": 4}
    entry = {"module": "ExactModule", "classes": ["a", "b"], "learned": learner.state_dict()}
    entry["config"] = {"method": method, "module": {"_target_": "lvmdc.lightning.ExactModule"}, "data": data, **parts}
    write_content(folder / "new.ckpt", {"epoch": 1, "lvmdc": entry})
    torch.save({"epoch": 1, "lvmdc": entry}, folder / "old.ckpt")
    detector = Detector(learner=DISC(loss=OverlapLoss(), max_iter=1), calibration=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector.fit(candidates, torch.tensor([[1, -1], [-1, 1], [1, 1], [-1, -1]]))
    config = {"method": method, "detection": {"detector": {"_target_": "lvmdc.vision.detection.Detector", "calibration": 0}}, **parts}
    write_content(folder / "detector.ckpt", {DETECTOR_KEY: {"config": config, "classes": ["a", "b"], "learned": detector.state_dict()}})
    torch.save(SmallCNN().state_dict(), folder / "weights.pt")

    def rewritten(data: bytes, rng: random.Random) -> bytes:
        content = altered(torch.load(BytesIO(data), weights_only=True), rng)
        write_content(folder / "changed", content)
        return (folder / "changed").read_bytes()

    def use(path: Path) -> str:
        checkpoint = read_checkpoint(path)
        checkpoint.model()
        checkpoint.part("proposals", Proposals)
        return str(sorted(checkpoint.learned.items(), key=str))

    def detect() -> None:
        read_checkpoint(folder / "detector.ckpt").model().detector.predict(candidates)

    return [
        Reader("checkpoint", folder / "new.ckpt", lambda: use(folder / "new.ckpt"), rewritten, checksum=True),
        Reader("checkpoint of 0.1", folder / "old.ckpt", lambda: use(folder / "old.ckpt"), same=True),
        Reader("detector", folder / "detector.ckpt", detect, rewritten, checksum=True),
        Reader("weights", folder / "weights.pt", lambda: load_backbone("small_cnn", folder / "weights.pt", stride=4)),
    ]


def _candidates(folder: Path) -> list[Reader]:
    _, candidates = _learner(folder)
    for name in ("a", "b", "c"):
        candidates.save(folder / f"{name}.npz")
    np.savez(folder / "numpy.npz", features=candidates.features, counts=candidates.counts)

    def cache() -> None:
        found = cached(folder / "c.npz", 4)
        if found is None:  # which a warning said
            raise ValueError("c.npz is damaged")

    return [
        Reader("candidates, read", folder / "a.npz", lambda: Candidates.load(folder / "a.npz", mmap=False), as_arrays, checksum=True),
        Reader("candidates, mapped", folder / "b.npz", lambda: Candidates.load(folder / "b.npz", mmap=True), as_arrays, checksum=True),
        Reader("candidates of numpy", folder / "numpy.npz", lambda: Candidates.load(folder / "numpy.npz", mmap=True), as_arrays),
        Reader("cache", folder / "c.npz", cache, as_arrays, checksum=True),
    ]


def _arrays(folder: Path) -> list[Reader]:
    folder.mkdir()
    path, image = folder / "a.npz", Image.new("RGB", (9, 9))
    arrays = {"images": np.array(["a.png", "b/c.png"]), "counts": np.array([1, 2]), "features": np.eye(3, 2, dtype=np.float16)}
    arrays |= {"boxes": np.array([[0, 0, 3, 2], [1, 0, 4, 2], [1, 1, 9, 2]], np.float32), "train_1": np.array([0]), "test_1": np.array([1])}
    np.savez(path, **arrays)

    def described() -> None:
        boxes = FileProposals(path).boxes(image, "c.png")
        FileFeatures(path).describe_named(image, "c.png", boxes)

    return [
        Reader("proposals", path, lambda: FileProposals(path).boxes(image, "c.png"), as_arrays),
        Reader("features", path, described, as_arrays),
        Reader("published split", path, lambda: published_split(path, 0, ["a.png", "b/c.png"]), as_arrays),
    ]


def _coco(folder: Path) -> list[Reader]:
    folder.mkdir()
    for i in (1, 2):
        Image.new("RGB", (6, 4)).save(folder / f"{i}.png")
    boxes = [{"id": i, "image_id": i, "category_id": 3 + i, "bbox": [1, 1, 3.5, 2], "iscrowd": 0} for i in (1, 2)]
    images = [{"id": i, "file_name": f"{i}.png", "width": 6, "height": 4} for i in (1, 2)]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 4, "name": "cat"}, {"id": 5, "name": "dog"}]}
    path = folder / "a.json"
    path.write_text(json.dumps(content))
    return [Reader("COCO", path, lambda: coco(path), as_json), Reader("COCO scenes", path, lambda: coco_scenes(path), as_json)]


def _voc(folder: Path) -> list[Reader]:
    root = folder / "VOC2011"
    for part in ("Annotations", "JPEGImages", "ImageSets/Action"):
        (root / part).mkdir(parents=True)
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"
    person = f"<object><name>person</name><difficult>0</difficult>{box}<actions><running>1</running><other>0</other></actions></object>"
    for key in ("p1", "p2"):
        Image.new("RGB", (6, 4)).save(root / "JPEGImages" / f"{key}.jpg")
        xml = f"<annotation><size><width>6</width><height>4</height></size>{person}</annotation>"
        (root / "Annotations" / f"{key}.xml").write_text(xml)
    listed = root / "ImageSets" / "Action" / "trainval.txt"
    listed.write_text("p1 1\np2 1\n")

    def scenes() -> None:
        voc_detection(folder, 2011, "trainval", None, image_set="Action")

    return [
        Reader("VOC action", root / "Annotations" / "p1.xml", lambda: voc_action(folder), reworded),
        Reader("VOC detection", root / "Annotations" / "p1.xml", scenes, reworded),
        Reader("VOC list", listed, lambda: voc_action(folder), reworded),
    ]


def _folder(root: Path) -> list[Reader]:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        Image.fromarray(rng.integers(0, 255, (12, 16, 3), np.uint8)).save(root / name / "1.png")
    table = root / "boxes.csv"
    table.write_text("image,label,x1,y1,x2,y2\ncat/1.png,cat,0,0,3,4\ndog/1.png,dog,1.5,1,6,4\n")
    made = [Reader("boxes.csv", table, lambda: folder(root), reworded)]
    table.unlink()
    image = Image.open(root / "cat" / "1.png")
    for suffix in ("png", "jpg", "gif", "tif", "webp", "bmp", "ppm"):
        own = root.with_name(f"images_{suffix}")
        (own / "cat").mkdir(parents=True)
        image.save(own / "cat" / f"1.{suffix}")
        made.append(Reader(f"image folder, {suffix}", own / "cat" / f"1.{suffix}", lambda own=own: folder(own).image(0)))
    made[0].read = lambda: _with(table, lambda: folder(root))
    return made


def _with(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    finally:
        path.unlink(missing_ok=True)


def _sequences(folder: Path) -> list[Reader]:
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}7_1.data").write_text("2\na:1:0:ACGTA\nb:-1:0:TTTTT\n")
        (folder / f"{part}8_1.data.gz").write_bytes(gzip.compress(b"2\na:1:0:ACGTA\nb:-1:0:TTTTT\n"))
    return [
        Reader("motif", folder / "train7_1.data", lambda: motif(folder, "7", width=3).candidates(), reworded),
        Reader("motif, gz", folder / "train8_1.data.gz", lambda: motif(folder, "8", width=3).candidates(), zipped(reworded)),
    ]


def _results(folder: Path) -> list[Reader]:
    (folder / "1" / ".hydra").mkdir(parents=True)
    (folder / "1" / "results.json").write_text(json.dumps({"test/loss": 0.5, "test/error": 0.25, "objective": 1.5}))
    (folder / "1" / ".hydra" / "overrides.yaml").write_text("- experiment=minimal\n- data.fold=1\n")
    run = Run("LSVM", "lvmdc.LSVM", "zero_one", '{"_target_": "lvmdc.ZeroOneLoss"}', (("C", 1.0),), (), Division(fold=0), "data")
    store = Store(folder / "reproduce")
    predictions = {"y": [0, 1], "h": [1, 1], "p": None}
    store.write(run, {"measures": {"loss": 0.5, "entropy": None}, "converged": True, "warnings": ["a"], "predictions": predictions})

    def result() -> None:
        if store.read(run) is None:  # which a warning said
            raise ValueError(f"{run.key}.json is damaged")

    return [
        Reader("results.json", folder / "1" / "results.json", lambda: collect(folder).text(), as_json),
        Reader("overrides.yaml", folder / "1" / ".hydra" / "overrides.yaml", lambda: collect(folder).text(), reworded),
        Reader("result of a run", store.path(run), result, as_json),
    ]


def _others(folder: Path) -> list[Reader]:
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.txt", "hello " * 20)
    with tarfile.open(folder / "a.tar.gz", "w:gz") as bundle:
        info = tarfile.TarInfo("a/b.txt")
        info.size = 5
        bundle.addfile(info, BytesIO(b"hello"))
    (folder / "a.json").write_text(json.dumps([{"command": ["a"], "x": 1.5}]))

    def unpack(path: Path) -> None:
        with open_source(path) as source:
            for name in source.files:
                source.read(name)

    return [
        Reader("zip archive", folder / "a.zip", lambda: unpack(folder / "a.zip")),
        Reader("tar archive", folder / "a.tar.gz", lambda: unpack(folder / "a.tar.gz"), zipped(damaged)),
        Reader("run.json", folder / "a.json", lambda: read_json(folder / "a.json"), as_json),
    ]


# ---- running them ------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of the cases of one reader."""

    refused: int = 0
    accepted: int = 0
    tracebacks: list[str] = field(default_factory=list)  # anything but a sentence with the file's name
    unnoticed: list[int] = field(default_factory=list)  # cases in which a checksum should have refused the file
    slowest: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.tracebacks and not self.unnoticed


def fuzz(reader: Reader, cases: int) -> Tally:
    """Damage the reader's file `cases` times, a third of them in content rather than bytes."""
    tally = Tally()
    for case in range(cases):
        rng = random.Random(f"{reader.name} {case}")
        by_content = reader.rewrite is not None and case % 3 == 2
        try:
            data = reader.rewrite(reader.whole, rng) if by_content and reader.rewrite else damaged(reader.whole, rng)
        except (ValueError, TypeError, RecursionError, OverflowError):  # what cannot be written needs no reading
            data = damaged(reader.whole, rng)
        reader.file.parent.mkdir(parents=True, exist_ok=True)
        reader.file.write_bytes(data)
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = reader.read()
            tally.accepted += 1
            if (reader.checksum and not by_content and data != reader.whole) or (reader.same and found != reader.valid):
                tally.unnoticed.append(case)
        except (ValueError, OSError) as error:
            tally.refused += 1
            if "can't allocate" in str(error) or "\n" in str(error) or reader.file.name.partition(".")[0] not in str(error):
                tally.tracebacks.append(f"case {case}: not one sentence with the file's name: {type(error).__name__}: {error}")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            tally.tracebacks.append(f"case {case}: {type(error).__name__}: {str(error)[:100]} at {where.filename}:{where.lineno}")
        tally.slowest = max(tally.slowest, time.perf_counter() - started)
    reader.file.write_bytes(reader.whole)
    return tally


def main() -> None:
    cases, prefix = int(sys.argv[1]) if len(sys.argv) > 1 else 500, sys.argv[2] if len(sys.argv) > 2 else ""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))  # a file that asks for more is a failure, not the end of the machine
    bad = False
    with tempfile.TemporaryDirectory() as root:
        heads = (
            ("cases", 7),
            ("refused", 9),
            ("accepted", 10),
            ("tracebacks", 12),
            ("unnoticed", 11),
            ("slowest", 9),
            ("seconds", 9),
            ("peak MB", 9),
        )
        print(f"{'reader':24}" + "".join(f"{head:>{width}}" for head, width in heads))
        for reader in readers(Path(root)):
            if not reader.name.startswith(prefix):
                continue
            started = time.perf_counter()
            tally = fuzz(reader, cases)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            counts = f"{cases:7}{tally.refused:9}{tally.accepted:10}{len(tally.tracebacks):12}{len(tally.unnoticed):11}"
            print(f"{reader.name:24}{counts}{tally.slowest:8.2f}s{time.perf_counter() - started:8.1f}s{peak:9}", flush=True)
            for line in [*dict.fromkeys(tally.tracebacks)][:5] + [f"case {case}: accepted" for case in tally.unnoticed[:5]]:
                print(f"    {line}")
            bad |= not tally.ok
    sys.exit(bad)


if __name__ == "__main__":
    main()
