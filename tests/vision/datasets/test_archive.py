import io
import tarfile
import zipfile

import pytest

from lvmdc.vision.datasets.archive import open_source

FILES = {"a/one.txt": b"1", "a/b/two.txt": b"22", ".git/config": b"x", "a/.hidden": b"x"}


@pytest.fixture(params=["folder", "zip", "tar", "tar.gz"])
def packed(request, tmp_path):
    path = tmp_path / f"packed.{request.param}"
    if request.param == "folder":
        for name, data in FILES.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    elif request.param == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in FILES.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz" if request.param.endswith("gz") else "w") as archive:
            for name, data in FILES.items():
                add(archive, name, data)
    return path


def add(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def test_folders_and_archives_are_read_in_the_same_way_without_hidden_files(packed):
    with open_source(packed) as source:
        assert sorted(source.files) == ["a/b/two.txt", "a/one.txt"]
        assert source.read("a/b/two.txt") == b"22"


def test_links_in_an_archive_are_not_followed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
        add(archive, "plain.txt", b"1")
    with open_source(tmp_path / "a.tar") as source:
        assert source.files == ["plain.txt"]


def test_what_is_no_archive_is_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"source: .*none does not exist"), open_source(tmp_path / "none"):
        pass
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"source: .*a\.txt is damaged, or not a folder, a zip or a tar"), open_source(tmp_path / "a.txt"):
        pass


def test_an_archive_that_was_cut_off_is_refused(tmp_path):
    whole = tmp_path / "a.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        for i in range(50):
            add(archive, f"{i}.txt", bytes(range(256)) * 40 + str(i).encode())
    whole.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"source: .*a\.tar\.gz is damaged"), open_source(whole):
        pass


def test_a_damaged_file_in_an_archive_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("one.txt", b"hello hello")
    data = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(data.replace(b"hello hello", b"hellO hello", 1))
    with (
        open_source(tmp_path / "a.zip") as source,
        pytest.raises(ValueError, match=r"source: one\.txt in .*a\.zip cannot be read: Bad CRC"),
    ):
        source.read("one.txt")
