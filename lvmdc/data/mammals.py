"""The photographs of the paper's first experiment (section 6.1): six mammals, with our own boxes."""

import csv
from pathlib import Path

import torch

from lvmdc.data.folder import folder
from lvmdc.data.pictures import PictureSet
from lvmdc.data.reading import SUFFIXES

BOXES = Path(__file__).with_name("mammals_boxes.csv")  # read by eye, to about three pixels
HOW = "`python scripts/prepare_data.py mammals` says how to get them"

# One photograph scaled or cropped twice, or two of one animal in one place: found by the correlation of the pictures at 24×24 grey pixels
# and by matching local features (which finds crops), and confirmed by eye among all pictures of a class.
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
    """The names `<class>/<file>` of the 271 photographs.

    >>> len(photographs()), photographs()[0]
    (271, 'bison/bison_rescaled_0009.jpg')
    """
    with BOXES.open(encoding="utf-8", newline="") as file:
        return [row["image"] for row in csv.DictReader(file)]


def mammals(path: str | Path, boxes: str | Path | None = None) -> PictureSet:
    """The 271 photographs `path/images/<class>/<file>.jpg` of bison, deer, elephants, giraffes, llamas and rhinos.

    True boxes are our own, which the package holds, or those of the table `boxes` (see `folder`). `groups` keeps near duplicates
    (`NEAR_DUPLICATES`) on one side of a split. A photograph that is missing, or one too many, is refused by name.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for name in photographs():
    ...         Path(path, "images", name).parent.mkdir(parents=True, exist_ok=True)
    ...         Image.new("L", (640, 430)).save(Path(path, "images", name))
    ...     mammals(path)
    PictureSet(271 pictures of 6 classes, boxes, groups)
    """
    root = Path(path) / "images"
    if not root.is_dir():
        raise FileNotFoundError(f"the folder of photographs {root} does not exist; {HOW}")
    check_complete(root)
    pictures = folder(root, BOXES if boxes is None else boxes)
    groups = torch.arange(len(pictures))
    for first, second in NEAR_DUPLICATES:
        groups[pictures.names.index(second)] = groups[pictures.names.index(first)]
    return PictureSet(pictures.sources, pictures.classes, pictures.y, pictures.boxes, pictures.names, groups)


def check_complete(root: Path) -> None:
    """Refuse a folder of photographs by class that does not hold the 271, and no others.

    >>> check_complete(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere must hold the 271 photographs, but bison/bison_rescaled_0009.jpg is missing, and 270 others
    """
    expected = photographs()
    found = {f"{file.parent.name}/{file.name}" for file in root.glob("[!.]*/[!.]*") if file.suffix.lower() in SUFFIXES}
    missing = [name for name in expected if name not in found]
    extra = sorted(found.difference(expected))
    for names, what in ((missing, "is missing"), (extra, "is not one of them")):
        if names:
            others = f", and {len(names) - 1} others" if len(names) > 1 else ""
            raise ValueError(f"{root} must hold the {len(expected)} photographs, but {names[0]} {what}{others}")
