"""Sources: pictures in files or arrays, opened when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from lvmdc.data.reading import read_picture

Source = str | Path | np.ndarray


class Sources:
    """n pictures and the names of the classes that they may show; what each of them shows is for a subclass to say.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        names: what each picture is called in messages, caches and results; `picture 0`, … where not given.

    >>> Sources([np.zeros((4, 6), np.uint8)], ["cat"]).image(0).size
    (6, 4)
    """

    def __init__(self, sources: Sequence[Source], classes: Sequence[str], names: Sequence[str] | None = None):
        self.sources, self.classes = list(sources), list(classes)
        n = len(self.sources)
        if n == 0:
            raise ValueError("sources must hold at least one picture, but it is empty")
        for i, source in enumerate(self.sources):
            if isinstance(source, np.ndarray) and (source.dtype != np.uint8 or (source.ndim != 2 and source.shape[2:] != (3,))):
                raise ValueError(
                    f"sources[{i}] must be uint8 of shape (height, width) or (height, width, 3), but it is {source.dtype} of {source.shape}"
                )
        self.names = [f"picture {i}" for i in range(n)] if names is None else list(names)
        check_length("names", len(self.names), n)

    def __len__(self) -> int:
        return len(self.sources)

    def image(self, i: int) -> Image.Image:
        """Picture i in RGB, upright. A file that is missing, damaged or no picture is refused by name."""
        source = self.sources[i]
        return Image.fromarray(source).convert("RGB") if isinstance(source, np.ndarray) else read_picture(source)

    def digest(self, i: int) -> str:
        """The SHA-256 of what picture i is made from, the file's bytes or the array: the same digest, the same pixels.

        >>> Sources([np.zeros((4, 6), np.uint8)], ["cat"]).digest(0)[:8]
        '972fc41c'
        """
        source = self.sources[i]
        if isinstance(source, np.ndarray):
            head = f"{source.dtype.str} {source.shape} ".encode()
            return hashlib.sha256(head + np.ascontiguousarray(source).tobytes()).hexdigest()
        with Path(source).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def check_length(name: str, length: int, n: int) -> None:
    """Refuse a list that has not one entry for each of n pictures.

    >>> check_length("names", 2, 3)
    Traceback (most recent call last):
    ValueError: names must have one entry for each of the 3 pictures, but it has 2
    """
    if length != n:
        raise ValueError(f"{name} must have one entry for each of the {n} pictures, but it has {length}")
