import numpy as np
import pytest
from PIL import Image

from lvmdc.vision.datasets.images import image_size, read_image, to_rgb

RAMP = np.linspace(0, 255, 12).astype(np.uint8).reshape(3, 4)


@pytest.mark.parametrize(
    ("mode", "suffix"), [("1", "png"), ("L", "png"), ("LA", "png"), ("P", "gif"), ("RGBA", "png"), ("CMYK", "jpg"), ("RGB", "bmp")]
)
def test_every_mode_is_read_as_rgb(tmp_path, mode, suffix):
    file = tmp_path / f"a.{suffix}"
    Image.fromarray(RAMP).convert("RGB").convert(mode).save(file)
    image = read_image(file)
    assert (image.mode, image.size) == ("RGB", (4, 3))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_16_bit_image_keeps_its_greys(tmp_path, suffix):
    file = tmp_path / f"a.{suffix}"
    Image.fromarray(RAMP.astype(np.uint16) * 257).save(file)
    assert np.array_equal(np.asarray(read_image(file))[..., 1], RAMP)


def test_32_bit_integers_within_16_bits_are_scaled_and_others_refused():
    assert to_rgb(Image.fromarray(np.array([[257]], np.int32))).getpixel((0, 0)) == (1, 1, 1)
    with pytest.raises(ValueError, match=r"0\.\.65535"):
        to_rgb(Image.fromarray(np.array([[70000]], np.int32)))


def test_floating_point_images_are_refused_by_name(tmp_path):
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(ValueError, match=r"f\.tif .*floating point"):
        read_image(tmp_path / "f.tif")


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_transparent_pixels_show_white(tmp_path, mode):
    image = Image.new("RGBA", (2, 1), (200, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    if mode == "P":
        palette = Image.new("P", (2, 1))
        palette.putpalette([0, 0, 0, 200, 0, 0])
        palette.putpixel((0, 0), 1)
        palette.save(tmp_path / "a.png", transparency=0)
    else:
        image.save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png")
    assert [read.getpixel((x, 0)) for x in (0, 1)] == [(200, 0, 0), (255, 255, 255)]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_to_pixels_and_size(tmp_path, orientation):
    upright = np.zeros((30, 50), np.uint8)
    upright[:10, :10] = 255  # a mark in the top left corner
    undo = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: np.transpose,
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a, 2).T,
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = tmp_path / "a.png"
    Image.fromarray(np.ascontiguousarray(undo[orientation](upright))).save(file, exif=exif)
    assert image_size(file) == (50, 30)
    assert np.array_equal(np.asarray(read_image(file))[..., 0], upright)


def test_a_truncated_image_is_refused_by_name(tmp_path):
    file = tmp_path / "cut short.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:-600])
    with pytest.raises(ValueError, match=r"cut short\.jpg cannot be read as an image"):
        read_image(file)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n\x00\x00"])
@pytest.mark.parametrize("reader", [read_image, image_size])
def test_a_file_that_is_no_image_is_refused_by_name(tmp_path, content, reader):
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image"):
        reader(tmp_path / "bad.png")


@pytest.mark.parametrize("reader", [read_image, image_size])
def test_a_missing_file_is_named(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match=r"none\.png does not exist"):
        reader(tmp_path / "none.png")
