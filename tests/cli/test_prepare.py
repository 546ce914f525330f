import runpy
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from devkits import IMAGES, write_devkit
from PIL import Image

from lvmdc.cli.prepare import prepare_mammals, prepare_voc_action
from lvmdc.vision.datasets import mammals, voc_action
from lvmdc.vision.datasets.mammals import LENGTH, photographs

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_data.py"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The photographs as their repository has them, blank, and the windows of each: two side by side."""
    root = tmp_path_factory.mktemp("spl")
    Image.new("L", (640, 430)).save(root / "notes.jpg")
    for i, name in enumerate(photographs()):
        label, _, file = name.partition("/")
        place = root / "bbox" / "data" / label / "jpg" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "notes.jpg", place)
        for j in range(2):
            place.with_name(f"{file}.{j:03}.000.txt").write_text("\n".join([f"{i % 100 + j / 4}"] * LENGTH))
    (root / ".git").mkdir()
    (root / ".git" / "bison_rescaled_0009.jpg").write_bytes(b"not this one")
    return root


def without_windows(clone, path):
    shutil.copytree(clone, path, ignore=shutil.ignore_patterns("*.txt"))
    return path


def nothing_is_left(target):
    return not any(path.name.startswith(".") for path in target.rglob("*"))


def test_photographs_and_windows_of_a_clone_are_read_by_their_readers(clone, tmp_path):
    place = prepare_mammals(clone, tmp_path, progress=False)
    assert place == tmp_path / "mammals" / "images"
    assert len(mammals(tmp_path / "mammals")) == 271
    assert nothing_is_left(tmp_path)
    arrays = np.load(tmp_path / "mammals" / "hog.npz", allow_pickle=False)
    assert arrays["images"].tolist() == photographs()
    assert arrays["counts"].tolist() == [2] * 271
    assert arrays["grid"].tolist() == [[2, 1]] * 271
    assert arrays["labels"].tolist() == mammals(tmp_path / "mammals").y.tolist()
    np.testing.assert_allclose(arrays["windows"][:2], [[0, 0, 167.36, 119.1], [20.92, 0, 188.28, 119.1]], rtol=1e-6)
    assert arrays["features"].shape == (542, LENGTH)
    assert arrays["features"][3].tolist() == [1.25] * LENGTH
    # Bison 9 is at 16, 13, 176, 127, nearer to the second window; bison 11 at 70, 78, 232, 187 too.
    assert arrays["truth"][:2].tolist() == [1, 1]


def test_an_archive_without_windows_gives_the_photographs_alone(clone, tmp_path):
    without_windows(clone, tmp_path / "spl-master")
    with zipfile.ZipFile(tmp_path / "spl.zip", "w") as archive:
        for file in sorted((tmp_path / "spl-master").rglob("*.jpg")):
            archive.write(file, file.relative_to(tmp_path))
    prepare_mammals(tmp_path / "spl.zip", tmp_path / "data", progress=False)
    assert len(mammals(tmp_path / "data" / "mammals")) == 271
    assert not (tmp_path / "data" / "mammals" / "hog.npz").exists()


def test_what_a_clone_lacks_or_has_twice_is_refused_by_name_and_nothing_is_left(clone, tmp_path):
    source = without_windows(clone, tmp_path / "spl")
    jpg = source / "bbox" / "data" / "rhino" / "jpg"
    other = source / "older" / "rhino" / "rhino_rescaled_0002.jpg"
    other.parent.mkdir(parents=True)
    shutil.copy(jpg / other.name, other)
    prepare_mammals(source, tmp_path / "twice", progress=False)  # the same file twice is no matter
    other.write_bytes(b"another")
    with pytest.raises(ValueError, match=r"has two different files for rhino/rhino_rescaled_0002\.jpg: .* and older/rhino"):
        prepare_mammals(source, tmp_path / "data", progress=False)
    other.unlink()
    (jpg / "rhino_rescaled_0003.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"the source is not complete: images/rhino/rhino_rescaled_0003\.jpg cannot be read as an image"):
        prepare_mammals(source, tmp_path / "data", progress=False)
    for name in ("rhino_rescaled_0002.jpg", "rhino_rescaled_0003.jpg"):
        (jpg / name).unlink()
    with pytest.raises(ValueError, match=r"must hold the 271 photographs, but it lacks rhino/rhino_rescaled_0002\.jpg, and 1 others"):
        prepare_mammals(source, tmp_path / "data", progress=False)
    assert not list((tmp_path / "data" / "mammals").iterdir())


def test_windows_that_lack_some_are_refused(clone, tmp_path):
    source = tmp_path / "spl"
    shutil.copytree(clone, source)
    first = source / "bbox" / "data" / "bison" / "jpg" / "bison_rescaled_0009.jpg.000.000.txt"
    first.write_text("1\n2\n")
    with pytest.raises(ValueError, match=r"000\.000\.txt in .* must hold 1488 numbers, but it does not"):
        prepare_mammals(source, tmp_path / "data", progress=False)
    first.unlink()
    with pytest.raises(
        ValueError, match=r"must hold a grid of windows for bison/bison_rescaled_0009\.jpg, but it holds 1 for 2 × 1 places"
    ):
        prepare_mammals(source, tmp_path / "data", progress=False)


def test_what_is_there_is_left_alone_if_complete_and_refused_if_not(clone, tmp_path):
    source = without_windows(clone, tmp_path / "spl")
    place = prepare_mammals(source, tmp_path, progress=False)
    before = (place / "deer").stat().st_mtime_ns
    assert prepare_mammals(source, tmp_path, progress=False) == place
    assert (place / "deer").stat().st_mtime_ns == before
    (place / "deer" / "deer_rescaled_0017.jpg").unlink()
    with pytest.raises(
        FileExistsError, match=r"images is there already, but it is not complete: .*0017\.jpg is missing; move it away first"
    ):
        prepare_mammals(source, tmp_path, progress=False)


@pytest.mark.parametrize("year", [2011, 2012])
def test_the_official_archive_is_cut_down_to_the_action_task(tmp_path, year):
    inside = tmp_path / "in" / ("TrainVal/VOCdevkit" if year == 2011 else "VOCdevkit")
    write_devkit(inside, IMAGES, year)
    root = inside / f"VOC{year}"
    shutil.copy(root / "JPEGImages" / "2011_000001.jpg", root / "JPEGImages" / "2007_000001.jpg")  # of another task
    (root / "ImageSets" / "Main").mkdir()
    (root / "ImageSets" / "Main" / "trainval.txt").write_text("2007_000001\n")
    with tarfile.open(tmp_path / "voc.tar", "w") as archive:
        archive.add(tmp_path / "in", ".")
    place = prepare_voc_action(tmp_path / "voc.tar", tmp_path / "data", year, progress=False)
    assert place == tmp_path / "data" / "VOCdevkit" / f"VOC{year}"
    assert len(voc_action(tmp_path / "data" / "VOCdevkit", year)) == 3
    assert sorted(path.name for path in (place / "JPEGImages").iterdir()) == [f"{name}.jpg" for name in IMAGES]
    assert not (place / "ImageSets" / "Main").exists()
    assert nothing_is_left(tmp_path / "data")


def test_an_unpacked_devkit_may_be_named_at_any_level(tmp_path):
    write_devkit(tmp_path / "in" / "VOCdevkit", IMAGES)
    for i, source in enumerate(("in", "in/VOCdevkit", "in/VOCdevkit/VOC2011")):
        prepare_voc_action(tmp_path / source, tmp_path / str(i), progress=False)
        assert len(voc_action(tmp_path / str(i) / "VOCdevkit")) == 3


def test_what_a_devkit_lacks_is_refused_by_name(tmp_path):
    root = write_devkit(tmp_path / "in", IMAGES) / "VOC2011"
    with pytest.raises(ValueError, match=r"must hold one VOC2012/ImageSets/Action/trainval\.txt, .* but it holds 0"):
        prepare_voc_action(tmp_path / "in", tmp_path / "data", 2012, progress=False)
    with pytest.raises(ValueError, match="year must be one of 2010, 2011, 2012"):
        prepare_voc_action(tmp_path / "in", tmp_path / "data", 2007, progress=False)
    (root / "Annotations" / "2011_000004.xml").unlink()
    with pytest.raises(ValueError, match=r"lacks Annotations/2011_000004\.xml of VOC2011 \(1 of 12 files are missing\)"):
        prepare_voc_action(tmp_path / "in", tmp_path / "data", progress=False)
    (root / "Annotations" / "2011_000004.xml").write_text("<oops")
    with pytest.raises(ValueError, match=r"not complete: VOC2011/Annotations/2011_000004\.xml, line 1: not valid XML"):
        prepare_voc_action(tmp_path / "in", tmp_path / "data", progress=False)
    (root / "ImageSets" / "Action" / "trainval.txt").write_text("../../../../out\n")
    with pytest.raises(ValueError, match=r"must name images without their folder, but it has '\.\./\.\./\.\./\.\./out'"):
        prepare_voc_action(tmp_path / "in", tmp_path / "data", progress=False)
    assert not list((tmp_path / "data" / "VOCdevkit").iterdir())


def run_script(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: the data set must be one of mammals, voc_action, but none is given"),
        (["mammals", "sorce=x"], "error: 'sorce' is not an option of mammals, which has source, target"),
        (
            ["voc_action", "source=nowhere", "year=x"],
            "error: year must be one of 2010, 2011, 2012, which have an action task, but it is 'x'",
        ),
        (["mammals", "source=nowhere"], "error: source: nowhere does not exist"),
        (["mammals"], "git repository dgboy2000/spl"),
        (["voc_action"], "host.robots.ox.ac.uk/pascal/VOC/voc2011"),
    ],
)
def test_the_script_says_what_is_wrong_or_where_the_data_are(words, message, monkeypatch):
    with pytest.raises(SystemExit) as end:
        run_script(monkeypatch, *words)
    assert message in str(end.value.code)


def test_the_script_prepares_under_the_target(tmp_path, monkeypatch, capsys, caplog):
    write_devkit(tmp_path / "in", IMAGES)
    monkeypatch.setenv("LVMDC_DATA", str(tmp_path / "env"))
    run_script(monkeypatch, "voc_action", f"source={tmp_path / 'in'}", f"target={tmp_path / 'data'}")
    run_script(monkeypatch, "voc_action", f"source={tmp_path / 'in'}")
    places = [tmp_path / folder / "VOCdevkit" / "VOC2011" for folder in ("data", "env")]
    assert capsys.readouterr().out == "".join(f"voc_action  {place}\n" for place in places)
    assert f"{places[1]}: 3 images of 10 classes" in caplog.text
