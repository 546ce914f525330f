"""Public data sets in the layout that the readers expect.

lvmdc prepare mammals source=spl                                        # a clone or archive of the photographs' repository
lvmdc prepare voc_action source=VOCtrainval_25-May-2011.tar year=2011   # the official archive, or an unpacked devkit

Without source= a command says where to get one. The data go to the folder target=, by default $LVMDC_DATA, or data/ where that is
not set.
"""

import logging
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from lvmdc.storage.arrays import save_arrays
from lvmdc.vision.datasets.archive import Source, open_source
from lvmdc.vision.datasets.folder import folder
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.datasets.mammals import BOXES, check_complete, photographs, read_windows
from lvmdc.vision.datasets.voc import check_year, voc_action

log = logging.getLogger(__name__)

WHERE = {
    "mammals": """The photographs are public in the git repository dgboy2000/spl on GitHub, in bbox/data.
Get it, and name the clone or its archive:

  git clone --depth 1 https://github.com/dgboy2000/spl
  lvmdc prepare mammals source=spl""",
    "voc_action": """PASCAL VOC 2011 is at http://host.robots.ox.ac.uk/pascal/VOC/voc2011/ (training/validation data).
Get it, and name the archive, or the devkit that was unpacked from it:

  lvmdc prepare voc_action source=VOCtrainval_25-May-2011.tar

year=2010 and year=2012 take those of their years, which are on the pages beside it.""",
}

OPTIONS = {"mammals": {"source", "target"}, "voc_action": {"source", "target", "year"}}


def main(words: Sequence[str] | None = None) -> None:
    """`lvmdc prepare`, and scripts/prepare_data.py."""
    words = sys.argv[1:] if words is None else words
    if {"-h", "--help"} & {*words}:
        print((__doc__ or "").strip())  # noqa: T201
        return
    name, options = (*words[:1], "")[0], dict(word.partition("=")[::2] for word in words[1:])
    if name not in OPTIONS:
        given = f"but it is {name!r}" if name else "but none is given"
        sys.exit(f"{__doc__}\nerror: the data set must be one of {', '.join(OPTIONS)}, {given}")
    unknown = sorted(set(options) - OPTIONS[name])
    if unknown:
        sys.exit(f"error: {unknown[0]!r} is not an option of {name}, which has {', '.join(sorted(OPTIONS[name]))}")
    if not options.get("source"):
        sys.exit(WHERE[name])
    target = options.get("target") or os.environ.get("LVMDC_DATA") or "data"
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    try:
        if name == "mammals":
            place = prepare_mammals(options["source"], target)
        else:
            year = options.get("year") or "2011"
            place = prepare_voc_action(options["source"], target, int(year) if year.isdecimal() else year)  # type: ignore[arg-type]
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{name}  {place}")  # noqa: T201


def prepare_mammals(source: str | Path, target: str | Path, progress: bool = True) -> Path:
    """Copy the 271 photographs of the paper's first experiment from a clone or archive of their repository to `target/mammals/images`.

    They are found by their names, wherever they lie in the source. The copy is checked before it gets its name, so that what stands
    there is whole. True boxes need not be copied: the package has its own. Where the source has the authors' windows with their features,
    they become `target/mammals/hog.npz`, for proposals=mammals_windows and features=mammals_hog.

    >>> prepare_mammals("nowhere", "data")
    Traceback (most recent call last):
    FileNotFoundError: source: nowhere does not exist
    """
    place = Path(target) / "mammals" / "images"
    hog = place.with_name("hog.npz")

    def check(root: Path) -> ImageSet:
        check_complete(root)
        return folder(root, BOXES)

    with open_source(source) as opened:
        if not _is_there(place, check):
            with _replacing(place, check) as root:
                _copy(opened, _photographs(opened), root, progress)
        if hog.exists():
            log.info("%s is there already", hog)
            return place
        arrays = read_windows(opened, progress)
        if arrays is None:
            log.info("%s has no windows with features: %s is not written", source, hog)
        else:
            save_arrays(hog, arrays)
            log.info("%s: %d windows", hog, len(arrays["windows"]))
    return place


def prepare_voc_action(source: str | Path, target: str | Path, year: int = 2011, progress: bool = True) -> Path:
    """Copy what the action task needs of a VOC devkit, an archive or an unpacked one, to `target/VOCdevkit/VOC<year>`.

    These are the lists in ImageSets/Action, and the annotations and images that they name; the devkit may lie anywhere in the source, in
    2011 it is TrainVal/VOCdevkit/VOC2011. The copy is checked before it gets its name.

    >>> prepare_voc_action("nowhere", "data")
    Traceback (most recent call last):
    FileNotFoundError: source: nowhere does not exist
    """
    check_year(year)
    place = Path(target) / "VOCdevkit" / f"VOC{year}"

    def check(root: Path) -> ImageSet:
        return voc_action(root.parent, year)

    if not _is_there(place, check):
        with open_source(source) as opened, _replacing(place, check) as root:
            _copy(opened, _action_task(opened, year), root, progress)
    return place


def _is_there(place: Path, check: Callable[[Path], ImageSet]) -> bool:
    if not place.exists():
        return False
    try:
        check(place)
    except (OSError, ValueError) as error:
        raise FileExistsError(f"{place} is there already, but it is not complete: {error}; move it away first") from None
    log.info("%s is there already, and complete", place)
    return True


@contextmanager
def _replacing(place: Path, check: Callable[[Path], ImageSet]) -> Iterator[Path]:
    """A new folder that is checked and then gets the name `place`, or vanishes."""
    temporary = place.parent / f".{secrets.token_hex(8)}.tmp"
    root = temporary / place.name  # under its own name, which readers look for
    root.mkdir(parents=True)
    try:
        yield root
        try:
            images = check(root)
        except (OSError, ValueError) as error:
            raise ValueError(f"the source is not complete: {str(error).replace(str(root), place.name)}") from None
        os.rename(root, place)
        log.info("%s: %d images of %d classes", place, len(images), len(images.classes))
    finally:
        shutil.rmtree(temporary)


def _copy(source: Source, wanted: Mapping[str, str], root: Path, progress: bool) -> None:
    """Copy files of the source, name there → name below `root`, in the source's own order."""
    for name in tqdm([name for name in source.files if name in wanted], desc="files", unit="file", disable=not progress):
        place = root / wanted[name]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read(name))


def _photographs(source: Source) -> dict[str, str]:
    places: dict[str, list[str]] = {}
    for file in source.files:
        places.setdefault(PurePosixPath(file).name, []).append(file)
    chosen, missing = {}, []
    for name in photographs():
        label, _, file = name.partition("/")
        found = places.get(file, [])
        found = [place for place in found if label in PurePosixPath(place).parts] or found
        if not found:
            missing.append(name)
            continue
        if len({source.read(place) for place in found}) > 1:
            raise ValueError(f"source: {source.path} has two different files for {name}: {found[0]} and {found[1]}")
        chosen[found[0]] = name
    if missing:
        others = f", and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ValueError(f"source: {source.path} must hold the {len(photographs())} photographs, but it lacks {missing[0]}{others}")
    return chosen


def _action_task(source: Source, year: int) -> dict[str, str]:
    lists = "ImageSets/Action/"
    first = f"{lists}trainval.txt"
    roots = [file.removesuffix(first) for file in source.files if f"/{source.path.resolve().name}/{file}".endswith(f"/VOC{year}/{first}")]
    if len(roots) != 1:
        raise ValueError(f"source: {source.path} must hold one VOC{year}/{first}, as the official archive does, but it holds {len(roots)}")
    root, held = roots[0], set(source.files)
    wanted = {file: file.removeprefix(root) for file in source.files if PurePosixPath(file).parent == PurePosixPath(root + lists)}
    keys = {line.split()[0] for line in source.read(root + first).decode("utf-8", "replace").splitlines() if line.strip()}
    missing = []
    for key in sorted(keys):
        if PurePosixPath(key).name != key:
            raise ValueError(f"source: {root + first} must name images without their folder, but it has {key!r}")
        for name in (f"Annotations/{key}.xml", f"JPEGImages/{key}.jpg"):
            wanted[root + name] = name
            missing += [] if root + name in held else [name]
    if missing:
        raise ValueError(f"source: {source.path} lacks {missing[0]} of VOC{year} ({len(missing)} of {2 * len(keys)} files are missing)")
    return wanted
