"""From pictures to candidates: proposals, features, and the cache on disk."""

import logging
import os
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from lvmdc.candidates import Candidates
from lvmdc.data.pictures import PictureSet
from lvmdc.features.base import Features
from lvmdc.features.cache import cache_key, cache_path
from lvmdc.proposals.base import Proposals

log = logging.getLogger(__name__)


def build_candidates(
    pictures: PictureSet,
    proposals: Proposals,
    features: Features,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> Candidates:
    """The candidates of every picture: where `proposals` says, looking as `features` says.

    With `cache_dir` the result is kept there, in the npz layout of `Candidates.save`, under a hash of the pictures' contents
    and all settings: it is read again only for the same inputs. A cache file that is damaged is named in a warning and made anew.

    >>> from lvmdc.data import cluttered_digits
    >>> from lvmdc.features import HOG
    >>> from lvmdc.proposals import WindowGrid
    >>> build_candidates(cluttered_digits(per_class=1), WindowGrid(), HOG(), progress=False)
    Candidates(6 samples, 150 candidates of 324 features, boxes, torch.float32, cpu)
    """
    if cache_dir is None:
        return _computed(pictures, proposals, features, progress)
    _check_writable(Path(cache_dir))
    path = cache_path(cache_dir, cache_key(pictures, proposals, features))
    cached = _cached(path, len(pictures))
    if cached is not None:
        log.info("read the candidates from the cache %s", path)
        return cached
    candidates = _computed(pictures, proposals, features, progress)
    candidates.save(path)
    log.info("kept the candidates in the cache %s", path)
    return candidates


def _check_writable(directory: Path) -> None:
    """Refuse a folder that cannot take the result, before hours are spent on it."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"cache_dir must be a folder, but {directory} is a file")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"cache_dir must be a folder that can be written to, but {directory} cannot")


def _cached(path: Path, n: int) -> Candidates | None:
    if not path.exists():
        return None
    try:
        candidates = Candidates.load(path)
        if len(candidates) != n or candidates.boxes is None:
            raise ValueError(f"{path} holds {len(candidates)} samples instead of {n}, or no boxes")
        return candidates
    except Exception as error:  # whatever it is, the file can be made again
        log.warning("the cache file %s is damaged and is made anew: %s", path, error)
        return None


def _computed(pictures: PictureSet, proposals: Proposals, features: Features, progress: bool) -> Candidates:
    described: list[Tensor] = []
    placed: list[Tensor] = []
    for i in tqdm(range(len(pictures)), desc="candidates", unit="picture", disable=not progress):
        image, name = pictures.image(i), pictures.names[i]
        boxes = proposals.boxes(image, name)
        if boxes.dim() != 2 or boxes.shape[1] != 4 or len(boxes) == 0:
            raise ValueError(f"{proposals!r} must give {name} boxes of shape (m, 4) with m ≥ 1, but gave shape {tuple(boxes.shape)}")
        numbers = features.describe(image, boxes)
        length = described[0].shape[1] if described else numbers.shape[-1]
        if numbers.shape != (len(boxes), length):
            expected = (len(boxes), length)
            raise ValueError(f"{features!r} must give {name} features of shape {expected}, but gave shape {tuple(numbers.shape)}")
        placed.append(boxes)
        described.append(numbers)
    counts = torch.tensor([len(boxes) for boxes in placed])
    return Candidates(torch.cat(described), counts, torch.cat(placed))
