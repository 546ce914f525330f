"""Maps of a network on disk: each image goes through the network once, whatever is computed from its map."""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lvmdc.storage.arrays import load_arrays, save_arrays

log = logging.getLogger(__name__)


class MapStore:
    """Maps (c, h, w) of images, in half precision: a file each, under a hash of the pixels and of everything that the map depends on.

    What comes from a file and what was just computed for it are the same numbers. A damaged file is named in a warning and replaced. The
    map of the last image stays in memory, since several calls in a row ask for it.

    Args:
        directory: where the files are; None: nothing is stored.
        settings: what the maps depend on besides the pixels, as plain values for JSON.

    >>> import tempfile
    >>> def compute():
    ...     print("computed")
    ...     return torch.ones(1, 2, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = MapStore(folder, {"network": "a"})
    ...     first = store.get(Image.new("RGB", (8, 8)), compute)
    ...     torch.equal(store.get(Image.new("RGB", (8, 8)), compute), first)
    computed
    True
    """

    def __init__(self, directory: str | Path | None, settings: dict[str, Any]):
        self.directory, self.settings = None if directory is None else Path(directory), settings
        self._last: tuple[Image.Image, Tensor] | None = None

    def get(self, image: Image.Image, compute: Callable[[], Tensor]) -> Tensor:
        """The map of an image in single precision, on the CPU."""
        if self._last is None or self._last[0] is not image:
            self._last = image, self._found(image, compute)
        return self._last[1]

    def _found(self, image: Image.Image, compute: Callable[[], Tensor]) -> Tensor:
        if self.directory is None:
            return compute().float().cpu()
        path = self.directory / f"map-{self._key(image)}.npz"
        try:
            return torch.from_numpy(load_arrays(path, required=("map",))["map"]).float()
        except FileNotFoundError:
            pass
        except ValueError as error:
            log.warning("the stored map %s is damaged and is computed again: %s", path, error)
        found = compute().half().cpu()
        self.directory.mkdir(parents=True, exist_ok=True)
        save_arrays(path, {"map": found.numpy()})
        return found.float()

    def _key(self, image: Image.Image) -> str:
        rgb = image.convert("RGB")
        head = json.dumps([self.settings, rgb.size], sort_keys=True).encode()
        return hashlib.sha256(head + rgb.tobytes()).hexdigest()[:32]
