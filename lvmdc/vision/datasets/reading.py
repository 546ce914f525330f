"""Image files of any mode as RGB pixels."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

# Formats that Pillow may read, whatever the file name: pixels only. Others start programs, as EPS does.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS = 89_478_485  # above which Pillow warns of a decompression bomb; a quarter of a gigabyte in RGB
_ORIENTATION = 0x0112  # the EXIF tag; its values 5 to 8 rotate the image by a quarter turn


def to_rgb(image: Image.Image) -> Image.Image:
    """An image of any mode in RGB: 16 bits are scaled to 8, and transparency becomes white, as in a viewer.

    >>> to_rgb(Image.new("I;16", (1, 1), 65535)).getpixel((0, 0))
    (255, 255, 255)
    """
    if image.mode.startswith("I"):
        # Pillow's conversion of 16-bit images clips at 255, which makes them white.
        levels = np.asarray(image).astype(np.int64)
        if levels.size and (levels.min() < 0 or levels.max() > 65535):
            raise ValueError(f"its grey values must lie in 0..65535, but they span {levels.min()}..{levels.max()}")
        return Image.fromarray(np.round(levels / 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("it holds floating point values, whose range is unknown; save it with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def read_image(path: str | Path) -> Image.Image:
    """The image in RGB, upright according to its EXIF orientation. A file that cannot be read completely is refused by name."""
    with _opened(path) as image:
        image.load()
        return to_rgb(ImageOps.exif_transpose(image))


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height of the upright image, from the file header alone."""
    with _opened(path) as image:
        width, height = image.size
        return (height, width) if image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8) else (width, height)


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """An image of which only the header is read; one that is too large is refused before it takes memory, all errors name the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path, formats=FORMATS)
        with image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise ValueError(f"it has {width} by {height} pixels, and more than {MOST_PIXELS} in all are not read")
            yield image
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a damaged file
        # Pillow's message for a file that is no image repeats the path.
        unknown = isinstance(error, Image.UnidentifiedImageError)
        reason = "it is not an image" if unknown else (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as an image: {reason}") from error
