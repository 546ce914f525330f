"""A folder of images is checked as a whole before any long work."""

import pytest
from PIL import Image

from lvmdc.vision.datasets.folder import MOST_NAMED, check_folder


@pytest.fixture
def photos(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.effect_noise((40, 30), 60).convert("RGB").save(tmp_path / name / f"{i}.jpg")
    return tmp_path


def test_a_folder_that_is_whole_passes(photos):
    (photos / "cat" / "notes.txt").write_text("not an image")
    (photos / ".cache").mkdir()
    check_folder(photos)


def test_every_bad_file_and_class_is_named_at_once(photos):
    for name in ("cat/0.jpg", "dog/2.jpg"):
        content = (photos / name).read_bytes()
        (photos / name).write_bytes(content[: len(content) // 2])  # its head can still be read
    (photos / "elk").mkdir()
    (photos / "fox").mkdir()
    Image.new("RGB", (4, 3)).save(photos / "fox" / "1.png")
    with pytest.raises(ValueError, match="cannot be used for training") as found:
        check_folder(photos)
    for part in ("cat/0.jpg cannot be read", "dog/2.jpg cannot be read", "'elk' has 0 images", "'fox' has 1 image, but needs at least 2"):
        assert part in str(found.value)


def test_many_problems_are_counted(photos):
    for i in range(MOST_NAMED + 5):
        (photos / "cat" / f"bad{i:02}.jpg").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="and 5 other problems"):
        check_folder(photos)
