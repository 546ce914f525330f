"""Fifty damaged files for every reader, and attacks that no accident makes. `python tests/fuzz.py 5000` runs 5,000 each."""

import gzip
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from fuzz import Reader, fuzz, readers
from PIL import Image

from lvmdc import Candidates
from lvmdc.cli.table import collect
from lvmdc.lightning.checkpoint import read_content, write_content
from lvmdc.sequences.motif import read_sequences
from lvmdc.storage import arrays as storage
from lvmdc.storage import files
from lvmdc.testing import random_candidates
from lvmdc.vision.datasets import coco, coco_scenes
from lvmdc.vision.datasets.images import image_size, read_image
from lvmdc.vision.datasets.voc_annotation import read_objects


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Reader]:
    return {reader.name: reader for reader in readers(tmp_path_factory.mktemp("files"))}


NAMES = [
    *("checkpoint", "checkpoint of 0.1", "detector", "weights"),
    *("candidates, read", "candidates, mapped", "candidates of numpy", "cache", "proposals", "features", "published split"),
    *("COCO", "COCO scenes", "VOC action", "VOC detection", "VOC list", "boxes.csv"),
    *(f"image folder, {suffix}" for suffix in ("png", "jpg", "gif", "tif", "webp", "bmp", "ppm")),
    *("motif", "motif, gz"),
    *("results.json", "overrides.yaml", "result of a run", "zip archive", "tar archive", "run.json"),
]


def test_every_reader_has_cases(made):
    assert list(made) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_refused_in_one_sentence_or_read(name, made):
    tally = fuzz(made[name], 50)
    assert tally.tracebacks == []
    assert tally.unnoticed == []
    assert tally.refused > 0


# ---- checksums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [False, True])
def test_every_flipped_byte_of_a_saved_set_is_refused_with_what_to_do(tmp_path, mmap):
    path = tmp_path / "set.npz"
    random_candidates([1, 2]).save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"set\.npz is damaged or not an npz file of plain arrays: .*; copy it again from its source"):
            pytest.fail(f"byte {at}: {Candidates.load(path, mmap)}")


def test_every_flipped_byte_of_a_checkpoint_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "a.ckpt"
    write_content(path, {"w": torch.ones(5)})
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"a\.ckpt is (damaged or )?not a checkpoint.*; copy it again from its source, or make it"):
            pytest.fail(f"byte {at}: {read_content(path)}")


def test_files_of_before_are_read_with_a_warning(tmp_path, caplog):
    candidates = random_candidates([1, 2])
    np.savez(tmp_path / "old.npz", features=candidates.features, counts=candidates.counts)
    assert len(Candidates.load(tmp_path / "old.npz")) == 2
    assert "old.npz has no checksum" in caplog.text
    torch.save({"w": torch.ones(2)}, tmp_path / "old.ckpt")
    assert read_content(tmp_path / "old.ckpt")["w"].tolist() == [1, 1]
    assert "old.ckpt has no checksum" in caplog.text
    caplog.clear()
    candidates.save(tmp_path / "new.npz")
    Candidates.load(tmp_path / "new.npz")
    write_content(tmp_path / "new.ckpt", {})
    read_content(tmp_path / "new.ckpt")
    assert caplog.text == ""


def test_a_file_with_a_checksum_is_still_a_zip_that_others_read(tmp_path):
    random_candidates([1, 2]).save(tmp_path / "set.npz")
    with zipfile.ZipFile(tmp_path / "set.npz") as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"lvmdc sha256 ")
    with np.load(tmp_path / "set.npz") as file:
        assert file["counts"].tolist() == [1, 2]
    write_content(tmp_path / "a.ckpt", {"w": torch.ones(2)})
    assert torch.load(tmp_path / "a.ckpt", weights_only=True)["w"].tolist() == [1, 1]


def test_a_file_cannot_lose_its_checksum_unnoticed(tmp_path):
    path = tmp_path / "set.npz"
    random_candidates([1, 2]).save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-77], whole[:-1], whole + b"x", whole[:-79] + b"\0\0" + whole[-77:], whole[:-77] + b"foreign comment"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"set\.npz is damaged"):
            Candidates.load(path)


# ---- small files that would cost much memory ---------------------------------------------------------------------------


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(10_000, 10_000), (100_000, 100_000), (2_000_000_000, 2)])
def test_a_image_of_absurd_size_is_refused_before_it_is_read(tmp_path, size):
    (tmp_path / "bomb.png").write_bytes(bomb(*size))
    for read in (read_image, image_size):
        with pytest.raises(ValueError, match=r"bomb\.png cannot be read as an image"):
            read(tmp_path / "bomb.png")


def test_a_file_that_would_start_a_program_is_no_image(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(ValueError, match=r"a\.png cannot be read as an image: it is not an image"):
        read_image(tmp_path / "a.png")


def test_entities_of_xml_are_refused_before_they_grow(tmp_path):
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    bombs = [f'<!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><a>&l11;</a>', '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>']
    for text in bombs:
        for encoding in ("utf-8", "utf-16"):
            (tmp_path / "a.xml").write_text(text, encoding=encoding)
            with pytest.raises(ValueError, match=r"a\.xml declares a document type"):
                read_objects(tmp_path / "a.xml", (6, 4))
    (tmp_path / "a.xml").write_text("<a>" * 100_000)
    with pytest.raises(ValueError, match=r"a\.xml is nested more than 20 levels deep"):
        read_objects(tmp_path / "a.xml", (6, 4))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "1e400", "[NaN]", "[-Infinity]", "9" * 5000, str(2**63), "{", '"\ud800']
)
def test_json_of_absurd_depth_or_numbers_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    for read in (files.read_json, coco, coco_scenes):
        with pytest.raises(ValueError, match=r"a\.json"):
            read(path)


def test_references_in_yaml_are_refused_before_they_grow(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / "results.json").write_text("{}")
    laughs = "".join(f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    (tmp_path / ".hydra" / "overrides.yaml").write_text(f"- &a0 [ha]\n{laughs}")
    with pytest.raises(ValueError, match=r"overrides\.yaml must be a list of settings, .* it has references"):
        collect(tmp_path)


def test_an_array_that_claims_more_than_it_has_is_refused_before_it_is_made(tmp_path):
    for shape in ((1 << 40, 4), (1 << 60, 1 << 10), (-1, 4)):
        header = str({"descr": "<f8", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("features.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        for mmap in (False, True):
            with pytest.raises(ValueError, match=r"a\.npz is damaged or not an npz file"):
                storage.load_arrays(tmp_path / "a.npz", ("features",), mmap=mmap)


def test_a_compressed_array_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((1000, 10)))
    free = type("Memory", (), {"available": 1000})()
    monkeypatch.setattr(storage.psutil, "virtual_memory", lambda: free)
    with pytest.raises(ValueError, match=r"a\.npz .* needs 80000 bytes of memory, but 1000 are free"):
        storage.load_arrays(tmp_path / "a.npz", ("features",))


def test_a_compressed_text_that_grows_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    (tmp_path / "a.data.gz").write_bytes(gzip.compress(bytes(5000)))
    with pytest.raises(ValueError, match=r"a\.data\.gz must have at most 1000 bytes"):
        read_sequences(tmp_path / "a.data.gz")


def test_a_tensor_that_claims_more_numbers_than_the_file_has_is_refused(tmp_path):
    write_content(tmp_path / "a.ckpt", {"w": torch.zeros(1).expand(1 << 50)})
    with pytest.raises(ValueError, match=r"a\.ckpt .* claims more numbers than there are"):
        read_content(tmp_path / "a.ckpt")


# ---- paths that lead elsewhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "/etc/passwd", "a/../../secret.png", "..\\secret.png", "C:\\secret.png", "", ".", "a\nb.png", "a\0.png", "x" * 300],
)
def test_annotations_cannot_name_files_outside_the_images_folder(tmp_path, name):
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (6, 4)).save(tmp_path / "secret.png")
    content = {"images": [{"id": 1, "file_name": name}], "categories": [{"id": 1, "name": "cat"}]}
    content["annotations"] = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}]
    path = Path(folder, "a.json")
    path.write_text(json.dumps(content))
    for read in (coco, coco_scenes):
        with pytest.raises((ValueError, FileNotFoundError), match=r"a\.json names"):
            read(path)
