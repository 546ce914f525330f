"""Boxes that another program computed before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.storage.arrays import save_arrays
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.file import NamedRows
from lvmdc.vision.proposals.base import Proposals

OUTSIDE = ("refuse", "clip")


class FileProposals(Proposals):
    """The boxes of each image from an npz with the arrays `images` (n,), names, `counts` (n,) and boxes (T, 4), corners in pixels, those of
    one image after the other: what `lvmdc proposals`, or `numpy.savez` alone, writes. Images that it does not hold are refused.

    Args:
        path: the npz; see `NamedRows` for how images are found in it.
        boxes: the name of the boxes in it.
        outside: boxes that reach out of their image: `refuse`, since they look made for images of another size, or `clip` at the edge.
            A box that lies outside completely is always refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", images=["cat.jpg", "dog.jpg"], counts=[1, 2], boxes=[[0, 0, 3, 2], [1, 0, 4, 2], [1, 1, 9, 2]])
    ...     proposals = FileProposals(f"{folder}/a.npz", outside="clip")
    >>> proposals.boxes(Image.new("RGB", (6, 4)), "dog.jpg")
    tensor([[1., 0., 4., 2.],
            [1., 1., 6., 2.]])
    """

    def __init__(self, path: str | Path, boxes: str = "boxes", outside: str = "refuse"):
        if outside not in OUTSIDE:
            raise ValueError(f"outside must be one of {', '.join(OUTSIDE)}, but it is {outside!r}")
        self.path, self.array, self.outside = Path(path), boxes, outside
        self._rows = NamedRows(path, boxes)

    @classmethod
    def for_images(cls, images: ImageSet, **settings: Any) -> FileProposals:
        """The proposals of an image set; an image that is not in the file is refused before any work.

        >>> import tempfile
        >>> images = ImageSet([np.zeros((4, 6), np.uint8)], ["cat"], [0], names=["cat.jpg"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", images=["cat.jpg"], counts=[1], boxes=[[0, 0, 3, 2]])
        ...     FileProposals.for_images(images, path=f"{folder}/a.npz").boxes(images.image(0), "cat.jpg")
        tensor([[0., 0., 3., 2.]])
        """
        proposals = cls(**settings)
        for name in images.names:
            proposals._rows.of(name)
        return proposals

    def boxes(self, image: Image.Image, name: str) -> Tensor:
        stored = self._rows.boxes[self._rows.of(name)]
        edge = torch.tensor([image.width, image.height] * 2)
        inside = torch.minimum(stored, edge.to(stored)).clamp(min=0)
        wrong = (inside != stored).any(dim=1) if self.outside == "refuse" else (inside[:, 2:] <= inside[:, :2]).any(dim=1)
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            where = f"{self.path}: {self.array} of {name} must lie inside the image, which is {image.width} by {image.height} pixels"
            corners = ", ".join(f"{value:g}" for value in stored[i].tolist())
            clip = "; outside=clip cuts it at the edge" if bool((inside[i, 2:] > inside[i, :2]).all()) else ""
            raise ValueError(f"{where}, but one is {corners}{clip}")
        return inside

    def settings(self) -> dict[str, Any]:
        """The file counts by its content, not by its path."""
        return {"file": self._rows.digest, "boxes": self.array, "outside": self.outside}


def save_proposals(path: str | Path, names: Sequence[str], boxes: Sequence[Tensor]) -> None:
    """Write the boxes of each image in the layout that `FileProposals` reads; a reader never sees half a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_proposals(f"{folder}/a.npz", ["cat.jpg"], [torch.tensor([[0.0, 0.0, 3.0, 2.0]])])
    ...     FileProposals(f"{folder}/a.npz").boxes(Image.new("RGB", (6, 4)), "cat.jpg")
    tensor([[0., 0., 3., 2.]])
    """
    if len(names) != len(boxes) or not names:
        raise ValueError(f"boxes must have one entry for each of the {len(names)} names, at least one, but it has {len(boxes)}")
    packed = torch.cat([part.reshape(-1, 4) for part in boxes]).to(torch.float32).numpy(force=True)
    save_arrays(path, {"images": np.array(names), "counts": np.array([len(part) for part in boxes]), "boxes": packed})
