"""The photographs of the paper's first experiment (section 6.1), six mammals, with our boxes; its authors' windows and HOG features."""

import csv
import re
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from tqdm import tqdm

from lvmdc.boxes import box_iou
from lvmdc.storage.files import SUFFIXES
from lvmdc.vision.datasets.archive import Source
from lvmdc.vision.datasets.folder import folder
from lvmdc.vision.datasets.images import ImageSet

BOXES = Path(__file__).with_name("mammals_boxes.csv")  # read by eye, to about three pixels
HOW = "`lvmdc prepare mammals` says how to get them"

WINDOW = (8, 6)  # cells across and down
LENGTH = 8 * 6 * 31  # numbers of a window, 31 per cell
CELLS = {  # width and height of a cell in pixels, the same in all photographs of a class; windows are one cell apart
    "bison": (20.92, 19.85),
    "deer": (20.95, 21.25),
    "elephant": (19.95, 21.15),
    "giraffe": (12.92, 30.47),
    "llama": (17.9, 25.2),
    "rhino": (20.9, 18.48),
}
NAME = re.compile(r"(.+\.jpg)\.(\d{3})\.(\d{3})\.txt")  # the photograph, and the window's steps to the right and down

# One photograph scaled or cropped twice, or two of one animal in one place: found by correlation at 24×24 grey pixels and by matching local
# features (which finds crops), and confirmed by eye among all images of a class.
NEAR_DUPLICATES = (
    ("bison/bison_rescaled_0018.jpg", "bison/bison_rescaled_0311.jpg"),  # the same, scaled
    ("bison/bison_rescaled_0052.jpg", "bison/bison_rescaled_0461.jpg"),  # the same, scaled
    ("bison/bison_rescaled_0077.jpg", "bison/bison_rescaled_0265.jpg"),  # the same, cropped
    ("bison/bison_rescaled_0300.jpg", "bison/bison_rescaled_0312.jpg"),  # one animal in the snow, twice
    ("bison/bison_rescaled_0462.jpg", "bison/bison_rescaled_0612.jpg"),  # the same, cropped
    ("giraffe/giraffe_rescaled_0033.jpg", "giraffe/giraffe_rescaled_3014.jpg"),  # the same, scaled
    ("llama/llama_rescaled_0360.jpg", "llama/llama_rescaled_0515.jpg"),  # the same, cropped
    ("rhino/rhino_rescaled_0082.jpg", "rhino/rhino_rescaled_0313.jpg"),  # the same, scaled
)


def photographs() -> list[str]:
    """The names `<class>/<file>` of the 271 photographs."""
    with BOXES.open(encoding="utf-8", newline="") as file:
        return [row["image"] for row in csv.DictReader(file)]


def mammals(path: str | Path, boxes: str | Path | None = None) -> ImageSet:
    """The 271 photographs `path/images/<class>/<file>.jpg` of bison, deer, elephants, giraffes, llamas and rhinos.

    True boxes are ours, part of the package, or those of the table `boxes` (see `folder`). `groups` keeps `NEAR_DUPLICATES` on one side of
    a split. Missing and additional photographs are refused by name.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for name in photographs():
    ...         Path(path, "images", name).parent.mkdir(parents=True, exist_ok=True)
    ...         Image.new("L", (640, 430)).save(Path(path, "images", name))
    ...     mammals(path)
    ImageSet(271 images of 6 classes, boxes, groups)
    """
    root = Path(path) / "images"
    if not root.is_dir():
        raise FileNotFoundError(f"the folder of photographs {root} does not exist; {HOW}")
    check_complete(root)
    images = folder(root, BOXES if boxes is None else boxes)
    groups = torch.arange(len(images))
    for first, second in NEAR_DUPLICATES:
        groups[images.names.index(second)] = groups[images.names.index(first)]
    images.groups = groups
    return images


def check_complete(root: Path) -> None:
    """Refuse a folder of photographs by class that does not hold exactly the 271."""
    expected = photographs()
    found = {f"{file.parent.name}/{file.name}" for file in root.glob("[!.]*/[!.]*") if file.suffix.lower() in SUFFIXES}
    missing = [name for name in expected if name not in found]
    extra = sorted(found.difference(expected))
    for names, what in ((missing, "is missing"), (extra, "is not one of them")):
        if names:
            others = f", and {len(names) - 1} others" if len(names) > 1 else ""
            raise ValueError(f"{root} must hold the {len(expected)} photographs, but {names[0]} {what}{others}")


def read_windows(source: Source, progress: bool = True) -> dict[str, np.ndarray] | None:
    """All windows of the 271 photographs in the layout of `FileProposals` and `FileFeatures`; None if there is no window.

    A window is a file `<photograph>.<i>.<j>.txt` of 1,488 numbers, i steps to the right and j down. The arrays are `images` (271,),
    `labels` (271,), `counts` (271,), `grid` (271, 2), windows across and down, `windows` (T, 4), `features` (T, 1488) in half precision,
    and `truth` (271,), the window of best overlap with our box, the first of several that tie. Window (i, j) of an image is its row
    i · grid[1] + j.
    """
    found: dict[str, dict[tuple[int, int], str]] = {}
    for file in source.files:
        match = NAME.fullmatch(PurePosixPath(file).name)
        if match:
            found.setdefault(match[1], {})[int(match[2]), int(match[3])] = file
    if not found:
        return None
    names = photographs()
    grids = {name: _grid(name, found.get(PurePosixPath(name).name, {}), source) for name in names}
    total = sum(across * down for across, down in grids.values())
    features, windows, row = np.empty((total, LENGTH), np.float16), np.empty((total, 4), np.float32), 0
    with tqdm(total=total, desc="windows", unit="window", disable=not progress) as bar:
        for name, (across, down) in grids.items():
            step = np.array(CELLS[name.partition("/")[0]])
            for i, j in np.ndindex(across, down):
                features[row] = _numbers(source, found[PurePosixPath(name).name][i, j])
                windows[row] = np.concatenate([(i, j) * step, (np.add((i, j), WINDOW)) * step])
                row += 1
            bar.update(across * down)
    grid, labels = np.array(list(grids.values())), np.array([sorted(CELLS).index(name.partition("/")[0]) for name in names])
    arrays = {"images": np.array(names), "labels": labels, "counts": grid.prod(axis=1), "grid": grid, "windows": windows}
    return arrays | {"features": features, "truth": _truth(arrays["counts"], windows)}


def _grid(name: str, found: dict[tuple[int, int], str], source: Source) -> tuple[int, int]:
    across, down = (1 + max((place[axis] for place in found), default=-1) for axis in (0, 1))
    if not found or len(found) != across * down:
        places = f"{len(found)} for {across} × {down} places"
        raise ValueError(f"source: {source.path} must hold a grid of windows for {name}, but it holds {places}")
    return across, down


def _numbers(source: Source, file: str) -> np.ndarray:
    try:
        numbers = np.array(source.read(file).split(), np.float64)
    except ValueError:
        numbers = np.array([])
    if numbers.shape != (LENGTH,) or not np.isfinite(numbers).all():
        raise ValueError(f"source: {file} in {source.path} must hold {LENGTH} numbers, but it does not")
    return numbers


def _truth(counts: np.ndarray, windows: np.ndarray) -> np.ndarray:
    with BOXES.open(encoding="utf-8", newline="") as file:
        boxes = [[float(row[corner]) for corner in ("x1", "y1", "x2", "y2")] for row in csv.DictReader(file)]
    ends = np.cumsum(counts)
    parts = zip(ends - counts, ends, torch.tensor(boxes, dtype=torch.float64), strict=True)
    # Rounded: all windows around a small box overlap it equally, and the last digit must not decide.
    return np.array([int(box_iou(torch.from_numpy(windows[a:b]).double(), box).round(decimals=6).argmax()) for a, b, box in parts])
