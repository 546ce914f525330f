import logging
import unicodedata

import pytest
import torch
from PIL import Image

from lvmdc.vision.datasets import folder

HEADER = "image,label,x1,y1,x2,y2\n"


@pytest.fixture
def pets(tmp_path):
    """Two cats and a dog, 8 by 6 pixels, under a path with a space and a letter beyond ASCII."""
    root = tmp_path / "meine Tiere ü"
    for name in ("cat/1.png", "cat/2 b.JPG", "dog/é.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6)).save(root / name)
    return root


def table(root, *rows, name="boxes.csv"):
    (root / name).write_text(HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    return root / name


GOOD = ("cat/1.png,cat,0,0,8,6", "cat/2 b.JPG,cat,1,2,3.5,4", "dog/é.png,dog,2,2,4,4")


def test_a_folder_without_a_table_has_no_boxes(pets):
    images = folder(pets)
    assert images.classes == ["cat", "dog"]
    assert images.names == ["cat/1.png", "cat/2 b.JPG", "dog/é.png"]
    assert images.y.tolist() == [0, 0, 1]
    assert images.boxes is None
    assert images.image(2).size == (8, 6)


def test_boxes_are_found_beside_the_images_in_any_order(pets):
    table(pets, *reversed(GOOD))
    assert torch.equal(folder(pets).boxes, torch.tensor([[0.0, 0, 8, 6], [1, 2, 3.5, 4], [2, 2, 4, 4]]))


def test_a_table_elsewhere_may_name_images_from_its_own_folder(pets):
    rows = [f"{pets.name}/{row}" for row in GOOD]
    assert folder(pets, table(pets.parent, *rows, name="elsewhere.csv")).boxes is not None
    assert folder(str(pets), str(table(pets.parent, *GOOD, name="plain.csv"))).boxes is not None


def test_a_table_from_a_spreadsheet_or_a_mac_is_read(pets):
    path = pets / "boxes.csv"
    text = HEADER + "\n".join(GOOD) + "\n"
    path.write_bytes(b"\xef\xbb\xbf" + unicodedata.normalize("NFD", text).replace("\n", "\r\n").encode())
    assert folder(pets).boxes[2].tolist() == [2, 2, 4, 4]


def test_a_box_lies_in_the_upright_image(pets):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 6)).save(pets / "cat" / "1.png", exif=exif)
    table(pets, "cat/1.png,cat,0,0,6,8", *GOOD[1:])
    assert folder(pets).boxes[0].tolist() == [0, 0, 6, 8]
    assert folder(pets).image(0).size == (6, 8)


def test_hidden_files_and_other_files_are_left_aside(pets, caplog):
    (pets / "cat" / ".DS_Store").write_bytes(b"x")
    (pets / "cat" / "._1.png").write_bytes(b"x")
    (pets / "cat" / "notes.txt").write_text("x")
    (pets / ".cache").mkdir()
    (pets / "__MACOSX").mkdir()
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        assert len(folder(pets)) == 3
    assert "1 files are left aside" in caplog.text


def test_a_table_may_have_the_boxes_of_some_of_the_images(pets, caplog):
    table(pets, *GOOD[1:])
    with caplog.at_level(logging.INFO, logger="lvmdc"):
        images = folder(pets)
    assert images.boxed.tolist() == [False, True, True]
    assert images.boxes is None
    assert images.truth.image.tolist() == [1, 2]
    assert images.truth.box.tolist() == [[1, 2, 3.5, 4], [2, 2, 4, 4]]
    assert images.subset([2, 0]).boxed.tolist() == [True, False]
    assert images.subset([2, 1]).boxes.tolist() == [[2, 2, 4, 4], [1, 2, 3.5, 4]]
    assert "boxes of 2 images from" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), r"boxes\.csv must have a row for at least one image, but it has none"),
        ((*GOOD, "cat/9.png,cat,0,0,1,1"), r"boxes\.csv, line 5: there is no image 'cat/9\.png' in "),
        ((*GOOD, "../../secret.png,cat,0,0,1,1"), r"line 5: there is no image '\.\./\.\./secret\.png'"),
        ((*GOOD, "cat/1.png,cat,0,0,1,1"), r"line 5: cat/1\.png has a second row"),
        ((*GOOD, ",cat,0,0,1,1"), "line 5: the column 'image' is empty"),
        (
            ("cat/1.png,cat,0,0,9,6", *GOOD[1:]),
            r"line 2: cat/1\.png: the box 0, 0, 9, 6 must lie inside the image, which is 8 by 6 pixels",
        ),
        (("cat/1.png,cat,-1,0,8,6", *GOOD[1:]), "must lie inside the image"),
        (("cat/1.png,cat,5,0,5,6", *GOOD[1:]), r"line 2: cat/1\.png: the box must have x2 > x1 and y2 > y1, but it is 5, 0, 5, 6"),
        (("cat/1.png,cat,0,4,5,3", *GOOD[1:]), "x2 > x1 and y2 > y1"),
        (("cat/1.png,cat,0,0,wide,6", *GOOD[1:]), r"line 2: cat/1\.png: x2 must be a number, but it is 'wide'"),
        (("cat/1.png,cat,0,0,nan,6", *GOOD[1:]), "x2 must be a number, but it is 'nan'"),
        (("cat/1.png,cat,0,0", *GOOD[1:]), "x2 must be a number, but it is None"),
        (("cat/1.png,dog,0,0,8,6", *GOOD[1:]), r"line 2: cat/1\.png lies in the class folder 'cat', but its label is 'dog'"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(pets, rows, message):
    table(pets, *rows)
    with pytest.raises(ValueError, match=message):
        folder(pets)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have the columns"),
        (b"image,x1,y1,x2,y2\n", "lacks 'label'"),
        (HEADER.encode() + b"cat/\xff,cat,0,0,1,1", "must be text in UTF-8"),
    ],
)
def test_a_file_that_is_no_table_is_refused_by_name(pets, content, message):
    (pets / "boxes.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"boxes\.csv {message}|boxes\.csv must have the columns.*{message}"):
        folder(pets)


def test_missing_and_empty_folders_are_refused_by_name(tmp_path, pets):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        folder(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"other\.csv does not exist"):
        folder(pets, tmp_path / "other.csv")
    with pytest.raises(NotADirectoryError, match=r"1\.png must be a folder"):
        folder(pets / "cat" / "1.png")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is empty"):
        folder(tmp_path / "empty")
    with pytest.raises(ValueError, match="cat holds files only"):
        folder(pets / "cat")
    (pets / "fish").mkdir()
    with pytest.raises(ValueError, match=r"class folder .*fish holds no image"):
        folder(pets)


def test_a_file_that_is_no_image_is_found_at_the_door(pets):
    (pets / "dog" / "bad.png").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image: it is not an image"):
        folder(pets)
