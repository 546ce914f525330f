"""Computed candidates on disk: the key under which they are kept, which belongs to their inputs, and reading them again."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from lvmdc.candidates import Candidates
from lvmdc.data.sources import Sources
from lvmdc.features.base import Features
from lvmdc.priors.base import Prior
from lvmdc.proposals.base import Proposals

log = logging.getLogger(__name__)
FORMAT = 1  # raise it when the same inputs give other numbers, and old caches are left alone


def cache_key(pictures: Sources, proposals: Proposals, features: Features, prior: Prior | None = None) -> str:
    """SHA-256 of everything that the candidates depend on: the pictures' contents, names and order, and the settings.

    Labels and true boxes are not among it: candidates do not depend on them.

    >>> import numpy as np
    >>> from lvmdc.features.hog import HOG
    >>> from lvmdc.proposals import WindowGrid
    >>> pictures = Sources([np.zeros((64, 64), np.uint8)], ["cat"])
    >>> cache_key(pictures, WindowGrid(), HOG()) == cache_key(pictures, WindowGrid(stride=4), HOG())
    False
    """
    key = hashlib.sha256()
    parts = {"format": FORMAT, "proposals": _described(proposals), "features": _described(features)}
    key.update(_canonical(parts if prior is None else parts | {"prior": _described(prior)}))
    for i, name in enumerate(pictures.names):
        key.update(_canonical([name, pictures.digest(i)]))
    return key.hexdigest()


def cache_path(cache_dir: str | Path, key: str) -> Path:
    """Where the candidates of a key lie.

    >>> cache_path("cache", "ab12").as_posix()
    'cache/candidates-ab12.npz'
    """
    return Path(cache_dir) / f"candidates-{key}.npz"


def cached(path: Path, n: int) -> Candidates | None:
    """The candidates of n pictures that a file has; None if there is no such file. One that is damaged is named in a warning and removed.

    >>> cached(Path("nowhere.npz"), 1) is None
    True
    """
    if not path.exists():
        return None
    try:
        candidates = Candidates.load(path)
        if len(candidates) != n or candidates.boxes is None:
            raise ValueError(f"{path} holds {len(candidates)} samples instead of {n}, or no boxes")
        return candidates
    except Exception as error:  # whatever it is, the file can be made again
        log.warning("the cache file %s is damaged and is made anew: %s", path, error)
        path.unlink(missing_ok=True)
        return None


def _described(part: Proposals | Features | Prior) -> dict[str, Any]:
    return {"kind": f"{type(part).__module__}.{type(part).__qualname__}", "settings": part.settings()}


def _canonical(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True).encode() + b"\n"
    except TypeError as error:
        raise TypeError(f"settings() must return plain values that JSON can write: {error}") from None
