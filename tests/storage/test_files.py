import errno
import gzip
import json

import pytest

from lvmdc.storage import files
from lvmdc.storage.files import inside, read_bytes, read_json, read_text, replacing, write_atomically, write_measures


def fail(path, code):
    with replacing(path) as file:
        file.write(b"new")
        raise OSError(code, "it is locked")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, r"a\.txt could not be written, since the disk is full: free some space and try again"),
        (errno.EACCES, r"a\.txt could not be written, since it is locked"),
    ],
)
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failed_write_says_why_and_leaves_the_old_file(tmp_path, code, message, old):
    path = tmp_path / "a.txt"
    if old:
        path.write_bytes(old)
    kept = "; the file that was there is unchanged" if old else "$"
    with pytest.raises(OSError, match=message + kept) as error:
        fail(path, code)
    assert error.value.errno == code
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([old] if old else [])


def test_a_write_replaces_the_file_and_makes_its_folder(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for data in (b"one", b"two"):
        write_atomically(path, data)
        assert path.read_bytes() == data
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_measures_that_are_not_finite_are_null(tmp_path):
    write_measures(tmp_path / "a.json", {"loss": 0.5, "ap": float("nan"), "bound": float("inf")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"loss": 0.5, "ap": None, "bound": None}


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", str(1 << 63), str(-(1 << 63) - 1), "9" * 5000])
def test_numbers_that_are_not_finite_or_too_large_are_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(f'{{"loss": {text}}}')
    with pytest.raises(ValueError, match=r"a\.json must hold finite numbers, but it holds"):
        read_json(path)


def test_json_that_is_damaged_or_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"a": ')
    with pytest.raises(ValueError, match=r"a\.json, line 2: not valid JSON"):
        read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"a\.json is nested too deeply"):
        read_json(path)
    path.write_text(json.dumps({"a": [1.5, -(1 << 63), None]}))
    assert read_json(path) == {"a": [1.5, -(1 << 63), None]}


def test_text_may_be_compressed_or_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffélan".encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("élan".encode()))
    assert read_text(tmp_path / "a.txt") == read_text(tmp_path / "a.txt.gz") == "élan"
    (tmp_path / "b.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"b\.txt must be text in UTF-8, but byte 0 is not"):
        read_text(tmp_path / "b.txt")


def test_a_compressed_file_that_is_truncated_or_too_large_is_refused(tmp_path, monkeypatch):
    whole = gzip.compress(bytes(1000))
    (tmp_path / "cut.gz").write_bytes(whole[:15])
    with pytest.raises(ValueError, match=r"cut\.gz cannot be unpacked"):
        read_bytes(tmp_path / "cut.gz")
    (tmp_path / "whole.gz").write_bytes(whole)
    assert read_bytes(tmp_path / "whole.gz") == bytes(1000)
    monkeypatch.setattr(files, "MOST_BYTES", 999)
    with pytest.raises(ValueError, match=r"whole\.gz must have at most 999 bytes when it is unpacked"):
        read_bytes(tmp_path / "whole.gz")


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "a/../../b", "..\\a", "a\x00b", "", "x" * 300])
def test_names_that_lead_out_of_a_folder_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="which is not the path of a file inside"):
        inside(tmp_path, name, "a.json")
    assert inside(tmp_path, "a/b.png", "a.json") == tmp_path / "a" / "b.png"
